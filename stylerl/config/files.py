"""Parameter files: read, checked, changed by dotted key, and written.

An unknown key, a wrong type or a value out of range is one `ConfigError`
that names the key, the value and the rule.
"""

import dataclasses
import inspect
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from stylerl.config.sections import PRESETS, Params, presets
from stylerl.config.settings import (
    build,
    lines_of,
    shown,
    to_dict,
    unknown,
)
from stylerl.errors import ConfigError

LINE = 200  # characters of what a message quotes
AMBIGUOUS = re.compile(r"[-+]?0[\d_]+|[^:]+:.*")


def load(path: Path = Path("params.yaml")) -> Params:
    """Read and validate a parameter file.

    Raises:
        ConfigError: the file is missing, not YAML, or breaks a rule.
    """
    return build(Params, _read_mapping(path), "")


def from_preset(name: str) -> Params:
    """The defaults with the numbers of `presets/NAME.yaml` on top.

    Raises:
        ConfigError: there is no such preset, or it breaks a rule.
    """
    if name == "default":
        return Params()
    path = PRESETS / f"{name}.yaml"
    if not path.exists():
        raise ConfigError(
            f"preset must be one of {', '.join(presets())}; got {name!r}"
        )
    return build(Params, {**_read_mapping(path), "preset": name}, "")


def override(params: Params, changes: Mapping[str, Any]) -> Params:
    """Replace values by dotted key, such as `{"ppo.kl_coef": 0.1}`.

    Raises:
        ConfigError: a key is unknown or a value breaks its rule.
    """
    sections: dict[str, dict[str, Any]] = {}
    for key, value in changes.items():
        section, _, name = str(key).rpartition(".")
        sections.setdefault(section, {})[name] = value
    tree = to_dict(params)
    for section, given in sections.items():
        target = tree.get(section) if section else tree
        prefix = f"{section}." if section else ""
        if not isinstance(target, dict):
            raise unknown("", f"{prefix}{next(iter(given))}", tree)
        for name, value in given.items():
            if name not in target:
                raise unknown(prefix, name, target)
            if isinstance(target[name], dict) and not section:
                raise ConfigError(
                    f"{name} is a section, and its values are set one by "
                    f"one, as {name}.{next(iter(target[name]))}; got "
                    f"{name} = {shown(value)}"
                )
            target[name] = value
    return build(Params, tree, "")


def render(params: Params) -> str:
    """The text of params.yaml: every value under a line of its meaning."""
    lines = [
        "# Written by `stylerl params`; the meanings come from",
        "# stylerl/config/sections.py.  Edit values here, or start again",
        "# from a preset: stylerl params --preset smoke",
    ]
    for field in dataclasses.fields(Params):
        value = getattr(params, field.name)
        if dataclasses.is_dataclass(value):
            meaning, *_ = (inspect.getdoc(value) or "").split("\n")
            lines += ["", f"{field.name}:  # {meaning}"]
            for inner in dataclasses.fields(value):
                lines += lines_of(inner, getattr(value, inner.name), 2)
        else:
            lines += ["", *lines_of(field, value, 0)]
    return "\n".join(lines) + "\n"


def read_yaml(text: str | bytes, name: str) -> Any:
    """What a YAML document says.

    Unlike PyYAML's own loader it takes no key twice, of which one would be
    lost.

    Args:
        text: the document.
        name: what to call it in an error.

    Raises:
        ConfigError: it is not such a document.
    """
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except RecursionError as error:
        raise ConfigError(
            f"{name} must be YAML of a few levels; it has hundreds, one in "
            "the other"
        ) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = ""
        if mark:
            where = f"line {mark.line + 1}, column {mark.column + 1}: "
        problem = getattr(error, "problem", None) or str(error)
        raise ConfigError(
            f"{name} is not valid YAML: {where}"
            f"{' '.join(problem.split())[:LINE]}"
        ) from error


class _Loader(yaml.SafeLoader):
    """YAML as params.yaml has it."""

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        """Say where a value is that its tag, or its digits, do not fit.

        What is octal or of base 60 here is decimal or text to DVC, which
        reads YAML 1.2.
        """
        kind = node.tag.rpartition(":")[2]
        number = isinstance(node, yaml.ScalarNode) and kind in ("int", "float")
        if number and AMBIGUOUS.fullmatch(node.value):
            raise yaml.MarkedYAMLError(
                problem=f"{shown(node.value)} is another number to YAML 1.1 "
                "than to 1.2; write it without a leading 0 and colons",
                problem_mark=node.start_mark,
            )
        try:
            return super().construct_object(node, deep)
        except (yaml.YAMLError, RecursionError):
            raise
        except Exception as error:  # PyYAML lets each kind escape
            raise yaml.MarkedYAMLError(
                problem=f"{shown(node.value)} is no {kind}",
                problem_mark=node.start_mark,
            ) from error

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        """Refuse a key that was there before."""
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue  # PyYAML says what it thinks of it
            if key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"{shown(key.value)} is given twice; remove one",
                    problem_mark=key.start_mark,
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _read_mapping(path: Path) -> dict[str, Any]:
    content = read_yaml(_read(path), str(path))
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must hold sections, as params.yaml does")
    return content


def _read(path: Path) -> bytes:
    """The bytes of a parameter file.

    Raises:
        ConfigError: it is missing or unreadable.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ConfigError(
            f"{path} does not exist; `stylerl params --preset default` "
            "writes one"
        ) from error
    except OSError as error:
        raise ConfigError(
            f"{path} must be a readable file; got: {error.strerror}"
        ) from error
