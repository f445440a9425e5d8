"""One prompt, completed by several models side by side, with verdicts.

What `stylerl complete "def add(a, b):"` shows: the same seed for every
model, syntax colours, and what the judge charged underlined.
"""

import os
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from stylerl.cli.main import say
from stylerl.errors import DataError, ModelError
from stylerl.export import llama_cpp
from stylerl.judge import Judge
from stylerl.judge.outcome import Assessment, Outcome, assess
from stylerl.judge.place import File, Place
from stylerl.lm.cut import whole_lines
from stylerl.report import markup

COLUMN = 50  # narrower columns are stacked instead; 160 hold three


class Answer(NamedTuple):
    """One model's completion and what the judge made of it."""

    label: str
    prompt: str
    completion: str
    assessment: Assessment


def complete(
    prompt: str,
    sources: Mapping[str, str],
    judge: Judge,
    options: Mapping[str, Any],
    watch: Callable[[str, str], None] = lambda label, text: None,
    above: str | None = None,
) -> list[Answer]:
    """Complete `prompt` with each model of `sources`, by its label.

    A model is a folder, or a GGUF file, which llama.cpp completes.  Those that
    do not exist yet are named and passed over; `options` are those of
    `sampling.generate`.  `watch` is told each label, and its
    completion as it grows.  `above` names what stands above the prompt, as
    `place_below` takes it.

    Raises:
        ModelError: none of the models exists, or one cannot be loaded, or is
            a GGUF file while there is something above.
        DataError: what stands above cannot be read.
    """
    # UTF-8, also in the locale C; the last line end is the completion's.
    prompt = os.fsencode(prompt).decode(errors="replace").rstrip("\n")
    place = place_below(above, prompt) if above else None
    prompt = textwrap.dedent(prompt)
    present = {
        label: name for label, name in sources.items() if _is_model(Path(name))
    }
    absent = [n for label, n in sources.items() if label not in present]
    remedy = "`stylerl run` makes them, `dvc repro base` the base alone"
    if not present:
        raise ModelError(
            f"there is no model to complete with: {', '.join(absent)} do not "
            f"exist; {remedy}"
        )
    if absent:
        say(f"passed over: {', '.join(absent)} does not exist; {remedy}")
    answers = []
    for label, name in present.items():
        asked = {**options, "listen": partial(watch, label)}
        if not _is_gguf(Path(name)):
            asked["above"] = place.above if place else ""
            text, ended = _by_torch(Path(name), prompt, **asked)
        elif place:
            raise ModelError(
                "--above gives as much as the model has learnt with, which "
                f"{name} does not say: name the folder that it came from"
            )
        else:
            text, ended = llama_cpp.complete(Path(name), prompt, **asked)
        judged = text if ended else whole_lines(text)
        (verdict,) = judge.in_place([(place, prompt, judged)])
        assessment = assess(prompt, ended, verdict)
        answers.append(Answer(label, prompt, text, assessment))
    return answers


def place_below(name: str, prompt: str) -> Place:
    """The place of a prompt below a file, or above LINE of `FILE:LINE`.

    Raises:
        DataError: the file cannot be read.
    """
    from stylerl.data.places import decode  # pandas takes its time

    path, _, line = name.rpartition(":")
    if not line.isdecimal():
        path, line = name, ""
    try:
        text, _ = decode(Path(path).read_bytes())
    except (OSError, SyntaxError, UnicodeError, LookupError) as error:
        raise DataError(
            f"--above takes FILE or FILE:LINE; cannot read {path}: {error}"
        ) from error
    above = text.removesuffix("\n").split("\n")
    if line:
        above = above[: max(0, int(line) - 1)]
    file = File([*above, *prompt.split("\n")], path)
    return Place(file, len(above) + 1, f"{prompt}\n", prompt)


def _is_gguf(path: Path) -> bool:
    return path.suffix == ".gguf" and path.is_file()


def _is_model(path: Path) -> bool:
    """Whether there is a model's folder, or a GGUF file."""
    return _is_gguf(path) or (path / "config.json").is_file()


def _by_torch(
    folder: Path, prompt: str, above: str, **options: Any
) -> tuple[str, bool]:
    """A completion, and whether the model ended it."""
    # Only now, since torch takes seconds.
    from stylerl.lm import context, encoding, models, sampling

    tokenizer = encoding.load_tokenizer(folder)
    model = models.load_causal_lm(str(folder), tokenizer=tokenizer)
    budget = context.context_of(model)
    encode = context.PromptEncoder(tokenizer, budget, {prompt: above})
    drawn = sampling.generate(
        model, tokenizer, [prompt], **options, encode=encode
    )
    return drawn.texts[0], drawn.finished[0]


def labelled(folders: Sequence[Path]) -> dict[str, str]:
    """Models by their names, or by their paths where names repeat.

    Raises:
        ModelError: one of them is no folder with a model, and no GGUF file.
    """
    for folder in folders:
        if not _is_model(folder):
            raise ModelError(
                "a model must be a folder as the hub has them, or a GGUF "
                f"file; {folder} has no config.json, or is not there"
            )
    by_label = {folder.resolve().name: str(folder) for folder in folders}
    if len(by_label) < len(folders):
        by_label = {str(folder): str(folder) for folder in folders}
    return by_label


@contextmanager
def growing(console: Console) -> Iterator[Callable[[str, str], None]]:
    """A display for `complete`: completions grow on a terminal."""
    texts: dict[str, str] = {}
    with Live(console=console, transient=True) as live:

        def watch(label: str, text: str) -> None:
            texts[label] = text
            panels = [
                Panel(highlight(code), title=name, title_align="left")
                for name, code in texts.items()
            ]
            live.update(side_by_side(panels, console.width))

        yield watch


def show(answers: Sequence[Answer], console: Console) -> None:
    """Print the answers, side by side where the terminal is wide."""
    console.print(side_by_side([*map(_panel, answers)], console.width))


def side_by_side(
    panels: Sequence[Panel], width: int, column: int = COLUMN
) -> Table:
    """Panels in columns of equal width, each at least `column` wide."""
    columns = max(1, min(len(panels), width // column))
    grid = Table.grid(expand=True)
    for _ in range(columns):
        grid.add_column(ratio=1)
    for start in range(0, len(panels), columns):
        grid.add_row(*panels[start:][:columns])
    return grid


def highlight(source: str) -> Text:
    """Python in syntax colours; control characters become pictures."""
    text = markup.visible(source)
    syntax = Syntax("", "python", theme="ansi_dark", word_wrap=True)
    code = syntax.highlight(text)
    code.rstrip()
    return code


def _panel(answer: Answer) -> Panel:
    outcome, parsed, score, violations = answer.assessment
    text = markup.visible(answer.prompt + answer.completion)
    code = highlight(text)
    for span in markup.spans(text, violations):
        code.stylize("underline red", span.start, span.end)
    code.stylize("dim", 0, len(answer.prompt))
    notes = [
        Text(f"{v.row}:{v.col} {v.code} {v.text}", "red") for v in violations
    ]
    colour = "green" if outcome is Outcome.COMPLIANT else "red"
    verdict = Text(f"{outcome}, score {score:.1f}", colour)
    body: list[RenderableType] = [code, Text(), verdict, *notes]
    return Panel(Group(*body), title=answer.label, title_align="left")
