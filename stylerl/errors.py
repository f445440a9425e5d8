"""The exceptions a user may see.

Each message says the rule, the value that broke it, and the remedy.  The
command line prints the message without a traceback; anything else that
escapes is a bug of ours.
"""

from importlib.util import find_spec


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


class MissingExtra(StylerlError):
    """A package of an optional extra is not installed."""


class TrainingError(StylerlError):
    """Training met a state it cannot continue from (NaN, an alarm)."""


def require(extra: str, *packages: str) -> None:
    """Check, before they are imported, that an extra's packages are there.

    Args:
        extra: its name in pyproject.toml, such as `train`.
        packages: the packages of it that are about to be used.

    Raises:
        MissingExtra: one of them cannot be imported.
    """
    for package in packages:
        spec = find_spec(package)
        if spec is None or spec.origin is None:  # a folder of that name
            raise MissingExtra(
                f"this needs {package}, which is not installed: "
                f"pip install 'stylerl[{extra}]'"
            )
