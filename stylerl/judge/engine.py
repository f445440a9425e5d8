"""flake8 inside this process, on sources in memory.

flake8's own checker runs here on lines that were never a file: no scratch
file, no process started, no second tokenizing for `# noqa`, which does not
count.  What is found, and where, is what the command
`flake8 --isolated --disable-noqa ...` finds in a file of the same bytes.

Plugins are those that flake8 itself requires (pycodestyle, pyflakes,
mccabe) and those the configuration names, whatever else is installed; a
configuration file is read only where one is named.  Three of flake8's
classes are shared by all engines of a process (plugins keep their options
on the class), so a process should hold one engine: pool.py starts a
process for each.
"""

import contextlib
import io
import os
from argparse import Namespace
from collections.abc import Sequence
from configparser import RawConfigParser
from typing import TYPE_CHECKING

from flake8.exceptions import PluginExecutionFailed
from flake8.formatting.base import BaseFormatter
from flake8.options.parse_args import parse_args
from flake8.plugins import finder
from flake8.style_guide import Decision, StyleGuideManager
from flake8.utils import normalize_pypi_name

from stylerl.errors import ConfigError
from stylerl.judge import rule_check
from stylerl.judge.checker import Checker
from stylerl.judge.verdict import SNIPPET, Extent, Verdict, Violation

if TYPE_CHECKING:  # not in a worker, which would load YAML for it
    from stylerl.config import JudgeConfig

OWN_PLUGINS = frozenset({"flake8", "pycodestyle", "pyflakes", "mccabe"})


class Engine:
    """flake8 with one configuration, ready to check many sources."""

    def __init__(self, config: "JudgeConfig") -> None:
        """Load the plugins and the options.

        Raises:
            ConfigError: flake8 refuses the options or the configuration
                file, or a plugin is missing or does not load.
        """
        errors = io.StringIO()
        try:
            with contextlib.redirect_stderr(errors):
                loaded = _load(arguments(config), config.plugins)
            plugins, self.options = loaded
            self._checkers = plugins.checkers
            used = {
                checker.plugin.package for checker in plugins.all_plugins()
            }
            self._takes_excerpts = used <= OWN_PLUGINS
            self._guides = StyleGuideManager(
                self.options, BaseFormatter(self.options)
            )
            rule_check.check(
                self.options,
                {p.entry_name for kind in self._checkers for p in kind},
                self.reports,
            )
        except ConfigError:
            raise
        except (Exception, SystemExit) as error:
            last = str(error)
            if isinstance(error, SystemExit):  # argparse has said why
                *_, last = errors.getvalue().splitlines() or [last]
            raise ConfigError(
                f"flake8 refuses the judge's options: {last}; mend "
                f"{config.config or 'the section judge'}"
            ) from error

    def check(
        self,
        source: bytes,
        path: str = SNIPPET,
        extent: Extent | None = None,
    ) -> Verdict:
        """Check one source.

        Never raises for what a source holds: a crash of flake8 or of a
        plugin is a verdict with its reason.

        Args:
            source: the file's bytes.
            path: the file's name, which rules on `__init__.py` and
                per-file-ignores look at.
            extent: the rows of one of its functions, if nothing is asked
                about others; what is found there may be left out then.
        """
        # A plugin that finds no lines may open the file (flake8-bugbear).
        name = path if source else os.devnull
        try:
            checker = Checker(
                source,
                name,
                self._checkers,
                self.options,
                extent if self._takes_excerpts else None,
            )
            checker.run_checks()
            violations = self._selected(checker, path)
        except PluginExecutionFailed as error:
            return _crash(error.original_exception)
        except Exception as error:
            return _crash(error)
        return Verdict(violations, checker.stopped is None, checker.stopped)

    def reports(self, code: str) -> bool:
        """Whether a finding of this code is reported in any file."""
        return any(
            guide.should_report_error(code) is Decision.Selected
            for guide in self._guides.style_guides
        )

    def _selected(self, checker: Checker, path: str) -> tuple[Violation, ...]:
        """What select and ignore let through, sorted."""
        decide = self._guides.style_guide_for(path).should_report_error
        # flake8 counts columns from 0, and from 1 when it prints them.
        violations = [
            Violation(row, (col or 0) + 1, code, text)
            for code, row, col, text, _ in checker.results
            if decide(code) is Decision.Selected
        ]
        return tuple(sorted(violations))


def arguments(config: "JudgeConfig") -> list[str]:
    """The flake8 command's arguments that say the same as `config`."""
    if config.config is not None:
        return ["--disable-noqa", "--config", config.config]
    return [
        "--isolated",
        "--disable-noqa",
        f"--select={','.join(config.select)}",
        f"--ignore={','.join(config.ignore)}",
        f"--max-line-length={config.max_line_length}",
    ]


def _load(
    argv: list[str], named: Sequence[str]
) -> tuple[finder.Plugins, Namespace]:
    """flake8's own start-up, with the plugins we name instead of all."""
    find = finder.find_plugins

    def find_named(
        settings: RawConfigParser, options: finder.PluginOptions
    ) -> list[finder.Plugin]:
        installed = find(settings, options)
        return _chosen(installed, named, options.require_plugins)

    finder.find_plugins = find_named
    try:
        return parse_args(argv)
    finally:
        finder.find_plugins = find


def _chosen(
    installed: list[finder.Plugin],
    named: Sequence[str],
    required: Sequence[str],
) -> list[finder.Plugin]:
    """flake8's own plugins, those named, and a configuration's local ones."""
    allowed = {*map(normalize_pypi_name, named), *OWN_PLUGINS, "local"}
    if missing := {*map(normalize_pypi_name, required)} - allowed:
        raise ConfigError(
            "the plugins must have what the configuration requires; add "
            f"{', '.join(sorted(missing))} to the plugins"
        )
    return [
        plugin
        for plugin in installed
        if normalize_pypi_name(plugin.package) in allowed
    ]


def _crash(error: Exception) -> Verdict:
    """The verdict where flake8 itself fails, as its command would."""
    reason = f"flake8 failed: {type(error).__name__}: {error}"
    return Verdict((), parsed=False, reason=reason.split("\n")[0])
