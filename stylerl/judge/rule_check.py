"""Whether the rules that are chosen can find anything.

flake8 takes any text for a rule; where nothing has it, every source complies.
"""

import inspect
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence

from flake8.plugins.finder import Plugin
from flake8.plugins.pyflakes import FLAKE8_PYFLAKES_CODES

from stylerl.errors import ConfigError

OWN = frozenset(("E", "W", "F", "C90"))  # names of flake8's own plugins


def check(
    options: Namespace,
    names: set[str],
    installed: Sequence[Plugin],
    reported: Callable[[str], bool],
) -> list[str]:
    """One sentence for each mistake in select and ignore.

    Args:
        options: flake8's.
        names: those under which the plugins in use are registered; a
            plugin's rules begin with its name.
        installed: every plugin there is.
        reported: whether a rule is reported in any file.

    Raises:
        ConfigError: not one rule is left that could be broken.
    """
    known = _known()
    chosen = [*(options.select or ()), *(options.extend_select or ())]
    plugins = names - OWN
    others = [rule for rule in chosen if _related(rule, plugins)]
    wrong = [
        f"no plugin in use has the rule {rule}; {_remedy(rule, installed)}"
        for rule in chosen
        if rule not in others and not any(c.startswith(rule) for c in known)
    ]
    wrong += [
        f"the plugin {name} is in use, and select leaves it out"
        for name in sorted(plugins)
        if not any(map(reported, [name, *others]))
    ]
    if options.max_complexity < 0:
        known -= {"C901"}
    if options.max_doc_length is None:
        known -= {"W505"}
    if not any(map(reported, [*known, *plugins, *others])):
        raise ConfigError(
            "select and ignore must leave a rule that can be broken; "
            + ("; ".join(wrong) or "none is left")
        )
    return wrong


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


def _remedy(rule: str, installed: Sequence[Plugin]) -> str:
    for plugin in installed:
        name = plugin.entry_point.name
        if name not in OWN and _related(rule, [name]):
            return f"add {plugin.package} to the plugins"
    return "leave it out, or install and name the plugin that has it"
