"""Declaring a command of `stylerl`, for argparse.

A command is a function under its name and options.  Its docstring is its
help; the first line is what `stylerl --help` lists.
"""

import argparse
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from stylerl import config
from stylerl.errors import ConfigError

EXAMPLES = "\n\nexamples"  # what follows is shown below the options
Option = tuple[str, dict[str, Any]]  # what `add_argument` takes
Run = Callable[[argparse.Namespace], int | None]
COMMANDS: list[tuple[str, Run, tuple[Option, ...]]] = []


def parser() -> argparse.ArgumentParser:
    """Every command and option."""
    top = argparse.ArgumentParser(
        prog="stylerl",
        description="Align a code model to a style guide, with the linter "
        "in the loop.",
        epilog="A first session: stylerl collect; stylerl doctor; "
        "stylerl run --preset smoke; stylerl report",
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    for name, run, options in COMMANDS:
        summary, _, text = (inspect.getdoc(run) or "").partition("\n\n")
        description, marker, examples = text.partition(EXAMPLES)
        command = commands.add_parser(
            name,
            help=summary[0].lower() + summary[1:].rstrip("."),
            description=description,
            epilog=(marker + examples).strip(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for flag, settings in options:
            command.add_argument(flag, **settings)
        command.set_defaults(command=run)
    return top


def option(
    name: str, metavar: str, text: str, default: Any = None, **more: Any
) -> Option:
    """What `add_argument` takes; a number makes numbers, a list repeats."""
    settings = {"metavar": metavar, "help": text, "default": default, **more}
    if default is False:
        settings = {"help": text, "action": "store_true"}
    elif isinstance(default, int):
        settings["type"] = int
    if isinstance(default, list):
        settings["action"] = "append"
    return name, settings


def command(name: str, *options: Option) -> Callable[[Run], Run]:
    """Make a function the command `name`."""

    def register(run: Run) -> Run:
        COMMANDS.append((name, run, options))
        return run

    return register


SET = option(
    "--set",
    "KEY=VALUE",
    "change one value, as ppo.kl_coef=0.1; repeatable",
    [],
)
CHANGES = (
    option(
        "--preset",
        "NAME",
        f"write params.yaml anew from one of {', '.join(config.presets())}",
    ),
    SET,
)


def changes(assignments: Sequence[str]) -> dict[str, Any]:
    """`KEY=VALUE` strings as a mapping; values are read as YAML.

    Raises:
        ConfigError: one of them is not of that form.
    """
    result = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals or not key:
            raise ConfigError(
                "a setting is KEY=VALUE, such as ppo.kl_coef=0.1; got "
                f"{assignment!r}"
            )
        result[key] = config.read_yaml(value, f"the value of {key!r}")
    return result
