"""The exceptions a user may see.

Each message says the rule, the value that broke it, and the remedy.  The
command line prints the message without a traceback; anything else that
escapes is a bug of ours.
"""


class StylerlError(Exception):
    """Base of every error that is the input's fault, not the code's."""


class ConfigError(StylerlError):
    """A parameter is unknown, of the wrong type, or out of range."""


class DataError(StylerlError):
    """Input data is missing, empty or malformed."""


class DiskError(StylerlError):
    """A file cannot be written: the disk is full, or may not be changed."""


class ModelError(StylerlError):
    """A model or tokenizer cannot be found, loaded or used."""


class TrainingError(StylerlError):
    """Training cannot go on: a loss, gradient or reward that is not finite."""
