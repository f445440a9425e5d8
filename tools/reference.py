"""Write docs/reference: commands, parameters, alarms and the API.

    make docs               calls it

Every page comes from what the code declares: the parser of the command line,
the dataclasses of stylerl.config, the rules of PPO's health, and the modules
of the library, whose docstrings mkdocstrings then reads.  The pages are not
kept in git.
"""

import argparse
import dataclasses
import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from stylerl import config, storage
from stylerl.cli.commands import parser
from stylerl.ppo import health

import_module("flows.commands")  # declares `run` and `serve`
ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs/reference"
BOUNDS = {"ge": "at least", "le": "at most", "gt": "above"}


def main() -> None:
    """Write every page."""
    os.environ.update(COLUMNS="79", NO_COLOR="1")  # argparse reads both
    pages = {
        "commands": commands(),
        "parameters": parameters(),
        "alarms": alarms(),
        **{f"api/{name}": api(name) for name in rooms()},
    }
    for name, lines in pages.items():
        storage.write_text(PAGES / f"{name}.md", "\n".join(lines) + "\n")
    print(f"{len(pages)} pages in {PAGES.relative_to(ROOT)}/")


def commands() -> Iterator[str]:
    """What `stylerl COMMAND --help` prints, command by command."""
    top = parser()
    yield from ["# Commands", "", *_shell(top.format_help())]
    for name, command in _subcommands(top).items():
        yield from ["", f"## stylerl {name}", ""]
        yield from _shell(command.format_help())


def _subcommands(
    top: argparse.ArgumentParser,
) -> dict[str, argparse.ArgumentParser]:
    """The parser of each command; argparse has no public name for them."""
    return next(
        dict(action.choices)
        for action in top._actions
        if isinstance(action, argparse._SubParsersAction)
    )


def _shell(text: str) -> list[str]:
    return ["```text", text.rstrip(), "```"]


def parameters() -> Iterator[str]:
    """Every parameter: default, meaning, bounds, and who else sets it."""
    yield from [
        "# Parameters",
        "",
        "`params.yaml` holds them all. `stylerl params` checks it, `--preset`",
        "writes it anew and `--set ppo.kl_coef=0.1` changes one value. A",
        "preset that sets a parameter itself is named with its value.",
    ]
    presets = {name: config.from_preset(name) for name in config.presets()[1:]}
    defaults = config.from_preset("default")
    for field in dataclasses.fields(defaults):
        section = getattr(defaults, field.name)
        if not dataclasses.is_dataclass(section):
            continue
        theirs = {n: getattr(p, field.name) for n, p in presets.items()}
        yield from ["", f"## {field.name}", "", _summary(section), ""]
        yield from ["| parameter | default | meaning |", "|---|---|---|"]
        for each in dataclasses.fields(section):
            yield _row(f"{field.name}.{each.name}", each, section, theirs)


def _row(name: str, field: Any, section: Any, theirs: dict[str, Any]) -> str:
    """One parameter as a row of its section's table."""
    default = getattr(section, field.name)
    meaning = " ".join(
        [
            field.metadata["meaning"].rstrip(".") + ".",
            *_bounds(field.metadata),
            *(
                f"Preset {preset}: {_value(value)}."
                for preset, values in theirs.items()
                if (value := getattr(values, field.name)) != default
            ),
        ]
    )
    anchor = f'<a id="{name.replace(".", "-")}"></a>'
    return f"| {anchor}`{name}` | {_value(default)} | {_cell(meaning)} |"


def _bounds(rule: Any) -> list[str]:
    """The values that are allowed, as sentences."""
    if choices := rule.get("choices"):
        return [f"One of {', '.join(map(_value, choices))}."]
    said = [
        f"{words} {rule[key]}"
        for key, words in BOUNDS.items()
        if rule.get(key) is not None
    ]
    return [f"{', '.join(said).capitalize()}."] if said else []


def _value(value: Any) -> str:
    """A value as YAML would hold it."""
    if isinstance(value, dict):
        text = ", ".join(f"{k}: {v:g}" for k, v in value.items())
        return f"`{{{text}}}`"
    if isinstance(value, tuple):
        return f"`[{', '.join(map(str, value))}]`"
    words = {None: "null", True: "true", False: "false"}
    if value is None or isinstance(value, bool):
        return f"`{words[value]}`"
    return f"`{value}`"


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def _summary(section: Any) -> str:
    return (type(section).__doc__ or "").strip().splitlines()[0]


def alarms() -> Iterator[str]:
    """Every alarm of PPO: what it says, why, and what to do."""
    yield from [
        "# Alarms",
        "",
        "PPO checks itself after every update. The rule of each alarm is in",
        "[what PPO logs](../ppo-log.md#alarms).",
    ]
    for name, advice in health.ADVICE.items():
        yield from ["", f"## {name}", "", advice.cause, "", advice.remedy]


def rooms() -> list[str]:
    """The packages of the library."""
    return sorted(p.parent.name for p in ROOT.glob("stylerl/*/__init__.py"))


def api(room: str) -> Iterator[str]:
    """One package: its docstring, then each of its modules."""
    yield from [f"# stylerl.{room}", ""]
    yield from [f"::: stylerl.{room}", "    options:", "      members: false"]
    for path in sorted((ROOT / "stylerl" / room).rglob("[!_]*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        yield from ["", f"## {path.stem}", "", f"::: {name}"]


if __name__ == "__main__":
    main()
