"""Parameter files: read, checked, changed by dotted key, and written.

An unknown key, a wrong type or a value out of range is one `ConfigError`
that names the key, the value and the rule.
"""

import dataclasses
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from stylerl.config.sections import PRESETS, Params, presets
from stylerl.config.settings import build, lines_of, shown, to_dict, unknown
from stylerl.errors import ConfigError


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
    tree = to_dict(params)
    for key, value in changes.items():
        if key == "preset":
            raise ConfigError(
                "a preset is what one starts from, and is not set; got "
                f"{key} = {shown(value)}: say --preset {value}"
            )
        section, _, name = str(key).rpartition(".")
        target = tree.get(section) if section else tree
        if not isinstance(target, dict):
            raise unknown("", key, tree)
        if isinstance(target.get(name), dict) and not section:
            raise ConfigError(
                f"{name} is a section, and its values are set one by one, as "
                f"{name}.{next(iter(target[name]))}; got {name} = "
                f"{shown(value)}"
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

    Args:
        text: the document.
        name: what to call it in an error.

    Raises:
        ConfigError: it is not such a document.
    """
    try:
        return yaml.load(text, _Loader)
    except Exception as error:  # PyYAML lets many kinds escape
        problem = f"{' '.join(str(error).split()):.200}"
        raise ConfigError(f"{name} is not valid YAML: {problem}") from error


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice, of which YAML would take the last."""

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if str(key.value) in seen:
                raise ValueError(f"{key.value} stands twice in one mapping")
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def _read_mapping(path: Path) -> dict[str, Any]:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{path} must be a readable file ({error.strerror}); `stylerl "
            "params --preset default` writes one"
        ) from error
    content = read_yaml(text, str(path))
    if not isinstance(content, dict):
        raise ConfigError(
            f"{path} must hold sections of settings; `stylerl params --preset "
            "default` writes one"
        )
    return content
