"""What a parameter is: its default, its meaning, its bounds, and its checks.

A section of parameters is a frozen dataclass whose fields are declared by
`setting`; made from a YAML file (`build`) or in code, it checks itself.
`lines_of` writes one as YAML with the meanings as comments.
"""

import dataclasses
import functools
import math
import operator
import re
import sys
import textwrap
import typing
from collections.abc import Mapping
from typing import Any

import yaml

from stylerl.errors import ConfigError


def setting(
    default: Any,
    meaning: str,
    *,
    ge: float | None = None,
    le: float | None = None,
    gt: float | None = None,
    choices: tuple[str, ...] | None = None,
    pattern: str | None = None,
    was: str | None = None,
) -> Any:
    """Declare one parameter: its default, its meaning and its bounds.

    `ge`, `le` and `gt` are the bounds that a number must be greater than or
    equal to, less than or equal to, and greater than; `choices` lists the
    strings allowed.  The default of a mapping is a dict, the bounds are of
    its values, and its names match the regular expression `pattern`.  `was`
    is the name the parameter had in the last version, which is still read.
    """
    bounds = {"ge": ge, "le": le, "gt": gt, "choices": choices}
    metadata = {"meaning": meaning, "pattern": pattern, "was": was, **bounds}
    if isinstance(default, dict):
        return dataclasses.field(
            default_factory=default.copy, metadata=metadata
        )
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class Section:
    """A section of the parameters, PREFIXConfig; or all of them."""

    def __post_init__(self) -> None:
        """Check types and bounds, whoever made it.

        An integer becomes the float, a list the tuple that is declared.

        Raises:
            ConfigError: a wrong type or a value out of bounds.
        """
        prefix, config, _ = type(self).__name__.partition("Config")
        hints = typing.get_type_hints(type(self))
        for field in dataclasses.fields(self):
            if not field.metadata:  # a section of its own
                continue
            name = f"{prefix.lower()}." * bool(config) + field.name
            value = _typed(name, getattr(self, field.name), hints[field.name])
            _check_bounds(name, value, field.metadata)
            object.__setattr__(self, field.name, value)


def build(cls: type[Any], content: Any, prefix: str) -> Any:
    """Make `cls` from a mapping, checking its keys; it checks the values.

    Args:
        cls: a dataclass of settings, or of such dataclasses.
        content: what a file says.
        prefix: where in the file this is, such as `ppo.`.

    Raises:
        ConfigError: an unknown key, a wrong type or a value out of bounds.
    """
    if not isinstance(content, dict):
        raise ConfigError(
            f"{prefix.rstrip('.')} must be a section of keys and values; "
            f"got {content!r}"
        )
    fields = {f.name: f for f in dataclasses.fields(cls)}
    hints = typing.get_type_hints(cls)
    values = {}
    for key, value in use_current_names(cls, content, prefix).items():
        if key not in fields:
            raise ConfigError(
                f"unknown parameter {prefix}{key} = {value!r}; allowed: "
                f"{', '.join(fields)}"
            )
        if dataclasses.is_dataclass(hints[key]):
            value = build(hints[key], value, f"{prefix}{key}.")
        values[key] = value
    return cls(**values)


def use_current_names(
    cls: type[Any], content: Mapping[str, Any], prefix: str
) -> dict[str, Any]:
    """`content` with the names of this version, for those of the last one.

    A renamed parameter (`setting(was=...)`) is read under its new name.  One
    that the section lists as REMOVED is left out where it has the value that
    is now always used.  Either is said in one line, once.

    Raises:
        ConfigError: the old and the new name are both given, or a removed
            parameter has another value than the one that is always used.
    """
    renamed = {
        f.metadata["was"]: f.name
        for f in dataclasses.fields(cls)
        if f.metadata.get("was")
    }
    removed = getattr(cls, "REMOVED", {})
    current = {}
    for key, value in content.items():
        name = renamed.get(key, key)
        if name != key and name in content:
            raise ConfigError(
                f"{prefix}{key} is the old name of {prefix}{name}, and both "
                f"are given; remove {prefix}{key}"
            )
        if key in removed:
            if value != removed[key]:
                raise ConfigError(
                    f"{prefix}{key} is no longer a parameter, and always "
                    f"{removed[key]!r}; got {value!r}: remove it"
                )
            _tell(f"{prefix}{key} is no longer a parameter; left out")
            continue
        if name != key:
            _tell(f"{prefix}{key} is now {prefix}{name}; written so")
        current[name] = value
    return current


@functools.cache
def _tell(message: str) -> None:
    """Write a line to stderr, the first time a process has it to say."""
    print(f"{message} when params.yaml is next saved", file=sys.stderr)


def _typed(name: str, value: Any, hint: Any) -> Any:
    """`value` as the field's type; an integer is taken for a float."""
    if typing.get_origin(hint) is tuple:
        if isinstance(value, (list, tuple)) and all(
            isinstance(item, str) for item in value
        ):
            return tuple(value)
        raise ConfigError(f"{name} must be a list of strings; got {value!r}")
    if typing.get_origin(hint) is Mapping:
        if isinstance(value, Mapping) and value:
            return {
                k: _typed(f"{name}.{k}", v, float) for k, v in value.items()
            }
        raise ConfigError(
            f"{name} must map names to numbers, such as {{name: 1.0}}; got "
            f"{value!r}"
        )
    allowed = typing.get_args(hint) or (hint,)
    if float in allowed and type(value) is int:
        return float(value)
    if type(value) in allowed:  # isinstance would take True for an int
        return value
    names = [each.__name__.replace("NoneType", "null") for each in allowed]
    remedy = ""
    if isinstance(value, str) and float in allowed:
        remedy = " (YAML reads 1e-5 as text: write 1.0e-5)"
    raise ConfigError(
        f"{name} must be {' or '.join(names)}; got {value!r}{remedy}"
    )


def _check_bounds(name: str, value: Any, rule: Mapping[str, Any]) -> None:
    """Raise ConfigError when a value is outside its declared bounds."""
    if rule.get("choices") and value not in rule["choices"]:
        allowed = ", ".join(rule["choices"])
        raise ConfigError(f"{name} must be one of {allowed}; got {value!r}")
    if isinstance(value, Mapping):
        for key, each in value.items():
            if not re.fullmatch(rule["pattern"], str(key)):
                raise ConfigError(
                    f"{name} knows no {key!r}; it takes {rule['meaning']}"
                )
            _check_bounds(f"{name}.{key}", each, rule)
    # Only numbers have the bounds below; a bool is an int, and has none.
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return
    if not math.isfinite(value):
        raise ConfigError(f"{name} must be a finite number; got {value}")
    for holds, words in (
        (operator.ge, "at least"),
        (operator.le, "at most"),
        (operator.gt, "above"),
    ):
        bound = rule.get(holds.__name__)
        if bound is not None and not holds(value, bound):
            raise ConfigError(f"{name} must be {words} {bound}; got {value}")


def to_dict(params: Any) -> dict[str, Any]:
    """Settings as plain dicts and lists, in declaration order."""
    fields = dataclasses.fields(params)
    return {f.name: _plain(getattr(params, f.name)) for f in fields}


def _plain(value: Any) -> Any:
    """A value of a setting, or a section of them, as YAML writes it."""
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


def lines_of(
    field: dataclasses.Field[Any], value: Any, indent: int
) -> list[str]:
    """YAML for one setting, under its meaning."""
    comment = textwrap.wrap(field.metadata["meaning"], 76 - indent)
    text = yaml.safe_dump(
        _plain(value), default_flow_style=True, sort_keys=False, width=60
    )
    text = f"{field.name}: {text.removesuffix('...' + chr(10))}"
    lines = [*(f"# {line}" for line in comment), *text.splitlines()]
    return [" " * indent + line for line in lines]
