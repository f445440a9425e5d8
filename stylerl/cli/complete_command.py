"""One prompt, completed by several models side by side, with verdicts.

What `stylerl complete "def add(a, b):"` shows: the same seed for every
model, syntax colours, and what the judge charged underlined.
"""

import os
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
from stylerl.judge.names import parse
from stylerl.judge.outcome import Assessment, Outcome, assess
from stylerl.judge.place import File, Place
from stylerl.judge.positions import indent_of
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
    context: int = 0,
    best_of: int = 1,
) -> list[Answer]:
    """Complete `prompt` with each model of `sources`, by its label.

    A model is a folder, or a GGUF file, which llama.cpp completes.  Those that
    do not exist yet are named and passed over; `options` are those of
    `sampling.generate`.  `watch` is told each label, and its
    completion as it grows.  `above` names a file that the prompt stands in,
    as `place_in` takes it: `context` tokens of what is above are given too.
    Of `best_of` completions of a model its answer is the one that the judge
    prefers, as `baselines.by_linter` has it.

    Raises:
        ModelError: none of the models exists, one cannot be loaded, or one is
            a GGUF file, which gets nothing from above.
        DataError: the file cannot be read.
    """
    # UTF-8, also in the locale C; the last line end is the completion's.
    prompt = os.fsencode(prompt).decode(errors="replace").strip("\n")
    place = None if above is None else place_in(above, prompt)
    indent = indent_of(prompt)
    prompt = "\n".join(
        line.removeprefix(indent) for line in prompt.split("\n")
    )
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
    gguf = [name for name in present.values() if _is_gguf(Path(name))]
    if gguf and place:
        raise ModelError(
            "what stands above is cut to tokens of the model, and llama.cpp "
            f"alone knows those of {gguf[0]}: name the folder it came from"
        )
    answers = []
    for label, name in present.items():
        asked = {**options, "listen": partial(watch, label)}
        if name in gguf:
            draws = _by_llama_cpp(Path(name), prompt, best_of, **asked)
        else:
            given = (place.above, context) if place else ("", 0)
            prompts = [prompt] * best_of
            draws = _by_torch(Path(name), prompts, *given, **asked)
        judged = [
            (place, prompt, text if ended else whole_lines(text))
            for text, ended in draws
        ]
        verdicts = judge.in_place(judged)
        choice = [
            Answer(label, prompt, text, assess(prompt, ended, verdict))
            for (text, ended), verdict in zip(draws, verdicts, strict=True)
        ]
        answers.append(max(choice, key=_by_linter))
    return answers


def _by_linter(answer: Answer) -> float:
    outcome, _, score, _ = answer.assessment
    return (outcome is Outcome.COMPLIANT) + score


def place_in(name: str, prompt: str) -> Place:
    """The place of a prompt at the end of FILE, or above LINE of FILE:LINE.

    Raises:
        DataError: the file cannot be read, or has no such line.
    """
    from stylerl.data.places import decode  # pandas takes its time

    path, _, line = name.rpartition(":")
    if not line.isdecimal():
        path, line = name, ""
    try:
        text, _ = decode(Path(path).read_bytes())
        parse(text)
    except (
        *(OSError, ValueError, SyntaxError, LookupError),
        *(RecursionError, MemoryError),  # parsed too deeply
    ) as error:
        raise DataError(
            "--above takes FILE or FILE:LINE, of Python that parses; cannot "
            f"read {path}: {error}"
        ) from error
    lines = text.removesuffix("\n").split("\n") if text else []
    row = int(line) if line else len(lines) + 1
    if not 1 <= row <= len(lines) + 1:
        raise DataError(f"{path} has {len(lines)} lines; got {name}")
    lines[row - 1 : row - 1] = prompt.split("\n")
    return Place(File(lines, path), row, f"{prompt}\n", prompt)


def _is_gguf(path: Path) -> bool:
    return path.suffix == ".gguf" and path.is_file()


def _is_model(path: Path) -> bool:
    """Whether there is a model's folder, or a GGUF file."""
    return _is_gguf(path) or (path / "config.json").is_file()


def _by_llama_cpp(
    file: Path, prompt: str, count: int, seed: int, **options: Any
) -> list[tuple[str, bool]]:
    """Completions of a prompt, and whether the model ended each."""
    return [
        llama_cpp.complete(file, prompt, seed=seed + n, **options)
        for n in range(count)
    ]


def _by_torch(
    folder: Path,
    prompts: Sequence[str],
    above: str,
    context: int,
    **options: Any,
) -> list[tuple[str, bool]]:
    """Completions of one prompt, and whether the model ended each."""
    # Only now, since torch takes seconds.
    from stylerl.lm import encoding, models, sampling
    from stylerl.lm.context import PromptEncoder

    tokenizer = encoding.load_tokenizer(folder)
    model = models.load_causal_lm(str(folder), tokenizer=tokenizer)
    encode = PromptEncoder(tokenizer, context, {prompts[0]: above})
    drawn = sampling.generate(
        model, tokenizer, prompts, **options, encode=encode
    )
    return [*zip(drawn.texts, drawn.finished, strict=True)]


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
