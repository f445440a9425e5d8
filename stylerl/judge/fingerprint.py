"""What a verdict depends on, and the digest that stands for it."""

import hashlib
import json
import os
import platform
import re
import sys
from configparser import Error, RawConfigParser
from importlib import metadata
from modulefinder import ModuleFinder
from pathlib import Path

from flake8 import utils

from stylerl.config import JudgeConfig
from stylerl.errors import ConfigError

LOCAL = "flake8:local-plugins"


def versions(config: JudgeConfig) -> dict[str, str]:
    """Versions by distribution, Python's own included.

    Raises:
        ConfigError: a plugin is not installed.
    """
    found = {"python": platform.python_version()}
    parts = ("flake8", "pycodestyle", "pyflakes", "mccabe")
    for name in (*parts, *sorted(config.plugins)):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError as error:
            raise ConfigError(
                f"judge.plugins must name installed flake8 plugins; {name!r} "
                f"is not installed: pip install {name}"
            ) from error
    return found


def identify(config: JudgeConfig, found: dict[str, str]) -> str:
    """16 hex digits that differ where a verdict may.

    They stand for the versions of Python, flake8, its parts and the plugins;
    the options, which of a configuration file are its content and not its
    path; the environment's variables that pyflakes reads; the code of local
    plugins; and, where rules are ignored by a file's name, the folder which
    that name is relative to.  What else a plugin may read is not in it.

    Args:
        config: the style guide.
        found: the versions.

    Raises:
        ConfigError: the configuration file cannot be read.
    """
    facts = [found, *_options(config)]
    variables = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("PYFLAKES_")
    }
    if variables:
        facts.append(variables)
    text = json.dumps(facts, sort_keys=True)
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]


def has_plugins(config: JudgeConfig) -> bool:
    """Whether others than flake8's own plugins judge."""
    if config.plugins or config.config is None:
        return bool(config.plugins)
    return LOCAL in Path(config.config).read_text(encoding="utf-8")


def working_directory() -> str:
    """The folder that relative names are relative to.

    Raises:
        ConfigError: it was deleted.
    """
    try:
        return os.getcwd()
    except OSError as error:
        raise ConfigError(
            f"the working directory must exist: {error.strerror}"
        ) from error


def _options(config: JudgeConfig) -> list[dict[str, object]]:
    """The options: ours, or the configuration file's and what it leads to."""
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
        if os.path.exists(config.config) and not os.path.isfile(config.config):
            raise OSError("it is no regular file")
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
    found: list[dict[str, object]] = [
        {name: dict(parser[name]) for name in sections}
    ]
    if "per-file-ignores" in text or "per_file_ignores" in text:
        found.append({"folder": working_directory()})
    if LOCAL in parser:
        found.append(_local_code(parser, Path(config.config).parent))
    return found


def _local_code(parser: RawConfigParser, folder: Path) -> dict[str, object]:
    """A digest for each module that a local plugin is made of.

    Those that the configuration names, and what they import, as far as it is
    neither Python's own nor installed.
    """
    section = parser[LOCAL]
    paths = utils.parse_comma_separated_list(section.get("paths", "").strip())
    installed = (sys.prefix, sys.base_prefix)
    own = [path for path in sys.path if not path.startswith(installed)]
    own += [working_directory(), *utils.normalize_paths(paths, str(folder))]
    finder = ModuleFinder(own)
    for kind in ("extension", "report"):
        for name in re.findall(r"=\s*([\w.]+)", section.get(kind, "")):
            try:
                finder.import_hook(name)
            except (ImportError, SyntaxError):  # flake8 will say so
                continue
    return {
        name: hashlib.sha256(Path(file).read_bytes()).hexdigest()
        for name, module in finder.modules.items()
        if (file := getattr(module, "__file__", None))
    }
