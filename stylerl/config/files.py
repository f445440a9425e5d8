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

from stylerl.config.sections import Params
from stylerl.config.settings import build, lines_of, to_dict, use_current_names
from stylerl.errors import ConfigError

PRESETS = Path(__file__).resolve().parent / "presets"


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


def presets() -> list[str]:
    """The names that `from_preset` takes."""
    return ["default", *sorted(path.stem for path in PRESETS.glob("*.yaml"))]


def override(params: Params, changes: Mapping[str, Any]) -> Params:
    """Replace values by dotted key, such as `{"ppo.kl_coef": 0.1}`.

    Raises:
        ConfigError: a key is unknown or a value breaks its rule.
    """
    sections: dict[str, dict[str, Any]] = {}
    for key, value in changes.items():
        section, _, name = key.rpartition(".")
        sections.setdefault(section, {})[name] = value
    tree = to_dict(params)
    for section, given in sections.items():
        target = tree.get(section) if section else tree
        cls = type(getattr(params, section, params))
        prefix = f"{section}." if section else ""
        if not isinstance(target, dict):
            raise _unknown(f"{prefix}{next(iter(given))}")
        for name, value in use_current_names(cls, given, prefix).items():
            if name not in target:
                raise _unknown(f"{prefix}{name}")
            target[name] = value
    return build(Params, tree, "")


def _unknown(key: str) -> ConfigError:
    return ConfigError(
        f"unknown parameter {key!r}; write SECTION.NAME as in params.yaml"
    )


def render(params: Params) -> str:
    """The text of params.yaml: every value under a line of its meaning."""
    lines = [
        "# Written by `stylerl params`; the meanings come from",
        "# stylerl/config/sections.py.  Edit values here, or start again",
        "# from a preset: stylerl params --preset smoke",
        "",
        f"preset: {params.preset}",
    ]
    for field in dataclasses.fields(Params):
        value = getattr(params, field.name)
        if dataclasses.is_dataclass(value):
            meaning, *_ = (inspect.getdoc(value) or "").split("\n")
            lines += ["", f"{field.name}:  # {meaning}"]
            for inner in dataclasses.fields(value):
                lines += lines_of(inner, getattr(value, inner.name), 2)
        elif field.metadata:
            lines += lines_of(field, value, 0)
    return "\n".join(lines) + "\n"


def _read_mapping(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(
            f"{path} does not exist; `stylerl params --preset default` "
            "writes one"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid YAML: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must hold sections, as params.yaml does")
    return content
