"""Whether the rules that are chosen can find anything.

flake8 takes any text for a rule; where nothing has it, every source complies.
"""

import inspect
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable

from flake8.plugins.pyflakes import FLAKE8_PYFLAKES_CODES

from stylerl.errors import ConfigError

OWN = frozenset(("E", "W", "F", "C90"))  # names of flake8's own plugins


def check(
    options: Namespace,
    names: set[str],
    reported: Callable[[str], bool],
) -> None:
    """Check that a rule is left that can be broken.

    Args:
        options: flake8's.
        names: those under which the plugins in use are registered; a
            plugin's rules begin with its name.
        reported: whether a rule is reported in any file.

    Raises:
        ConfigError: not one rule is left that could be broken.
    """
    known = _known()
    if options.max_complexity < 0:
        known -= {"C901"}
    if options.max_doc_length is None:
        known -= {"W505"}
    plugins = names - OWN
    chosen = [*(options.select or ()), *(options.extend_select or ())]
    others = [rule for rule in chosen if _related(rule, plugins)]
    if not any(map(reported, [*known, *plugins, *others])):
        raise ConfigError(
            "select and ignore must leave a rule of flake8 or of "
            f"judge.plugins; of {', '.join(chosen) or 'no selection'} none is "
            "left: select another, or name the plugin that has it"
        )


def _known() -> set[str]:
    """Every rule of flake8's own plugins."""
    style = inspect.getsource(sys.modules["pycodestyle"])
    return {
        *re.findall(r"\b[EW]\d{3}\b", style),
        *FLAKE8_PYFLAKES_CODES.values(),
        *("C901", "E902", "E999", "F999"),
    }


def _related(rule: str, names: Iterable[str]) -> bool:
    """Whether a plugin of one of the names may have the rule."""
    return any(n.startswith(rule) or rule.startswith(n) for n in names)
