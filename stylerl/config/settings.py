"""What a parameter is: its default, its meaning, its bounds, and its checks.

A section of parameters is a frozen dataclass whose fields are declared by
`setting`; made from a YAML file (`build`) or in code, it checks itself.
`lines_of` writes one as YAML with the meanings as comments.
"""

import dataclasses
import operator
import re
import textwrap
import typing
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from stylerl.errors import ConfigError

MOST = 1_000_000  # of any number that declares no other upper bound
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
Pattern = tuple[str, str]  # a regular expression, and what it takes in words


def setting(
    default: Any,
    meaning: str,
    *,
    ge: float | None = None,
    le: float | None = None,
    gt: float | None = None,
    choices: tuple[str, ...] | None = None,
    pattern: Pattern | None = None,
) -> Any:
    """Declare one parameter: its default, its meaning and its bounds.

    `ge`, `le` and `gt` are the bounds that a number must be greater than or
    equal to, less than or equal to, and greater than; a number is at most
    MOST unless `le` says otherwise.  `choices` lists the strings allowed.
    The default of a mapping is a dict, and the bounds are of its values.
    `pattern` is for a string, the names of a mapping and the items of a
    list.  A string is a name or a path, of one line.
    """
    if le is None and (ge is not None or gt is not None):
        le = MOST
    rules = {"ge": ge, "le": le, "gt": gt, "choices": choices}
    metadata = {"meaning": meaning, "pattern": pattern, **rules}
    if isinstance(default, dict):
        return dataclasses.field(
            default_factory=default.copy, hash=False, metadata=metadata
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
        for field in dataclasses.fields(self):
            if not field.metadata:  # a section of its own
                continue
            name = f"{prefix.lower()}." * bool(config) + field.name
            value = _typed(name, getattr(self, field.name), field.type)
            _check(name, value, field.metadata)
            object.__setattr__(self, field.name, value)


def build(cls: type[Any], content: Any, prefix: str, base: Any = None) -> Any:
    """Make `cls` from a mapping, checking its keys; it checks the values.

    Args:
        cls: a dataclass of settings, or of such dataclasses.
        content: what a file says.
        prefix: where in the file this is, such as `ppo.`.
        base: a `cls` with the values that the file does not give; those of
            the class by default.

    Raises:
        ConfigError: an unknown key, a wrong type or a value out of bounds.
    """
    if not isinstance(content, Mapping):
        raise ConfigError(
            f"{prefix.rstrip('.')} must be a section of keys and values; "
            f"got {shown(content)}"
        )
    fields = {f.name: f for f in dataclasses.fields(cls)}
    values = {}
    for key, value in content.items():
        if key not in fields:
            raise unknown(prefix, key, fields)
        default = fields[key].default
        if dataclasses.is_dataclass(default):
            value = build(type(default), value, f"{prefix}{key}.", default)
        values[key] = value
    return dataclasses.replace(base, **values) if base else cls(**values)


def shown(value: Any) -> str:
    """A value for a message: on one line, and short."""
    return f"{value!r:.80}"


def unknown(prefix: str, key: Any, known: Iterable[str]) -> ConfigError:
    """What to say of a key that is no parameter.

    Args:
        prefix: of its section, such as `ppo.`; empty for the whole file.
        key: as it was given.
        known: the names that the section has.
    """
    return ConfigError(
        f"unknown parameter {shown(f'{prefix}{key}')}; write SECTION.NAME as "
        f"in params.yaml; allowed: {', '.join(known)}"
    )


def _typed(name: str, value: Any, hint: Any) -> Any:
    """`value` as the field's type; an integer is taken for a float."""
    if typing.get_origin(hint) is tuple:
        if isinstance(value, (list, tuple)) and all(
            isinstance(item, str) for item in value
        ):
            return tuple(value)
        raise ConfigError(
            f"{name} must be a list of strings; got {shown(value)}"
        )
    if typing.get_origin(hint) is Mapping:
        if isinstance(value, Mapping):
            return {
                k: _typed(f"{name}.{k}", v, float) for k, v in value.items()
            }
        raise ConfigError(
            f"{name} must map names to numbers, such as {{name: 1.0}}; got "
            f"{shown(value)}"
        )
    allowed = typing.get_args(hint) or (hint,)
    # DVC writes 2e-05, which YAML 1.1 takes for a text, and 10.0 for 10.
    if (
        isinstance(value, str)
        and str not in allowed
        and NUMBER.fullmatch(value)
    ):
        value = float(value)
    if type(value) is float and int in allowed and value.is_integer():
        return int(value)
    if type(value) is int and float in allowed and abs(value) < 2**1023:
        return float(value)
    if type(value) in allowed:  # isinstance would take True for an int
        return value
    names = [kind.__name__.replace("NoneType", "null") for kind in allowed]
    remedy = ""
    if value is None:
        remedy = ": give it a value"
    elif str in allowed and not isinstance(value, list | dict):
        remedy = ": quote it in params.yaml (DVC's -S drops quotes)"
    raise ConfigError(
        f"{name} must be {' or '.join(names)}; got {shown(value)}{remedy}"
    )


def _check(name: str, value: Any, rule: Mapping[str, Any]) -> None:
    """Raise ConfigError when a value breaks what its setting declares."""
    if rule["choices"] and value not in rule["choices"]:
        allowed = ", ".join(rule["choices"])
        raise ConfigError(
            f"{name} must be one of {allowed}; got {shown(value)}"
        )
    if isinstance(value, str) and not (value.strip() and value.isprintable()):
        raise ConfigError(
            f"{name} must be a name or a path, of one line; got {shown(value)}"
        )
    if isinstance(value, (str, Mapping, tuple)) and rule["pattern"]:
        pattern, words = rule["pattern"]
        for item in [value] if isinstance(value, str) else value:
            if not isinstance(item, str) or not re.fullmatch(pattern, item):
                raise ConfigError(
                    f"{name} knows no {shown(item)}; it takes {words}"
                )
    if isinstance(value, Mapping):
        for item, number in value.items():
            _check(f"{name}.{item}", number, rule)
    # Only numbers have the bounds below, outside which nan and inf are; a
    # bool is an int, and has none.
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return
    for holds, words in (
        (operator.ge, "at least"),
        (operator.le, "at most"),
        (operator.gt, "above"),
    ):
        bound = rule[holds.__name__]
        if bound is not None and not holds(value, bound):
            raise ConfigError(
                f"{name} must be {words} {bound}; got {shown(value)}"
            )


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
