"""What a verdict depends on, and the digest that stands for it."""

import hashlib
import json
import os
import platform
import re
from configparser import Error, RawConfigParser
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from flake8 import utils

from stylerl.config import JudgeConfig
from stylerl.errors import ConfigError
from stylerl.judge import plugin_code

LOCAL = "flake8:local-plugins"
GROUPS = {"flake8.extension", "flake8.report"}  # of entry points
PER_FILE = {"per-file-ignores", "per_file_ignores"}


def versions(config: JudgeConfig) -> dict[str, str]:
    """Versions by distribution, Python's own included.

    That of a plugin has a digest of its code, which may be edited where it
    was installed from.

    Raises:
        ConfigError: a plugin is not installed.
    """
    by_name = {"python": platform.python_version()}
    for name in ("flake8", "pycodestyle", "pyflakes", "mccabe"):
        by_name[name] = metadata.version(name)
    for name in sorted(config.plugins):
        modules = []
        with suppress(metadata.PackageNotFoundError, ValueError):
            plugin = metadata.distribution(name)
            points = plugin.entry_points
            modules = [p.module for p in points if p.group in GROUPS]
        if not modules:
            raise ConfigError(
                f"judge.plugins must name installed flake8 plugins; {name!r} "
                f"is none: pip install {name}, or leave it out if it is "
                "installed and no plugin"
            )
        code = plugin_code.digests(modules)
        by_name[name] = f"{plugin.version} {digest(code)}"
    return by_name


def identify(config: JudgeConfig) -> str:
    """16 hex digits, which change whenever a verdict may change.

    They stand for the versions of Python, flake8, its parts and the plugins;
    the options, which of a configuration file are its content and not its
    path; the code of plugins, local ones too; and, where rules are ignored
    by a file's name, the folder which that name is relative to.  What else a
    plugin may read is not in it, nor the variables PYFLAKES_*.

    Raises:
        ConfigError: a plugin is not installed, or the configuration file
            cannot be read.
    """
    return digest([versions(config), *_options(config)])


def _options(config: JudgeConfig) -> list[dict[str, object]]:
    """The options: ours, or the configuration file and what it refers to."""
    if config.config is None:
        return [
            {
                "select": sorted(config.select),
                "ignore": sorted(config.ignore),
                "max_line_length": config.max_line_length,
            }
        ]
    parser = RawConfigParser()
    try:
        text = Path(config.config).read_text(encoding="utf-8")
        parser.read_string(text)
    except (OSError, UnicodeDecodeError, Error) as error:
        raise ConfigError(
            f"judge.config must be a configuration file; {config.config} "
            f"cannot be read: {error}"
        ) from error
    sections = [name for name in parser if name.startswith("flake8")]
    if not sections:
        raise ConfigError(
            "judge.config must be a file with a [flake8] section; "
            f"{config.config} has none"
        )
    options: list[dict[str, object]] = [
        {name: dict(parser[name]) for name in sections}
    ]
    if any(PER_FILE & {*parser[name]} for name in sections):
        options.append({"folder": os.getcwd()})
    if LOCAL in parser:
        options.append({**_local_code(parser, Path(config.config).parent)})
    return options


def _local_code(parser: RawConfigParser, folder: Path) -> dict[str, str]:
    """A digest for each module that the local plugins are made of."""
    section = parser[LOCAL]
    paths = utils.parse_comma_separated_list(section.get("paths", "").strip())
    texts = [section.get(kind, "") for kind in ("extension", "report")]
    return plugin_code.digests(
        re.findall(r"=\s*([\w.]+)", "\n".join(texts)),
        utils.normalize_paths(paths, str(folder)),
    )


def digest(facts: object) -> str:
    """16 hex digits that stand for some facts."""
    text = json.dumps(facts, sort_keys=True)
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]
