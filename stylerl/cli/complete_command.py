"""One prompt, completed by several models side by side, with verdicts.

What `stylerl complete "def add(a, b):"` shows: the same seed for every
model, syntax colours, and what the judge charged underlined.  With a suffix,
models that know fill-in-the-middle write what stands between the two.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from stylerl.config.settings import shown
from stylerl.errors import ConfigError, ModelError
from stylerl.judge import Judge
from stylerl.judge.outcome import Assessment, Outcome, assess
from stylerl.judge.positions import offset
from stylerl.judge.verdict import SYNTAX, Verdict
from stylerl.report import markup

COLOURS = {
    Outcome.COMPLIANT: "green",
    Outcome.VIOLATIONS: "yellow",
    Outcome.UNPARSABLE: "red",
    Outcome.UNFINISHED: "red",
}
COLUMN = 50  # narrower columns are stacked instead; 160 hold three


class Answer(NamedTuple):
    """One model's completion and what the judge made of it."""

    label: str
    prompt: str
    completion: str
    assessment: Assessment
    suffix: str = ""


def complete(
    prompt: str,
    sources: Mapping[str, str],
    judge: Judge,
    options: Mapping[str, Any],
    suffix: str | None = None,
) -> list[Answer]:
    """Complete `prompt` with each model of `sources` (label to folder).

    Folders that do not exist yet are named and passed over; `options` are
    those of `sampling.generate`.  With a `suffix`, what stands after the
    cursor, the prompt is taken to its last character, and models that do
    not know fill-in-the-middle are named and passed over as well.

    Raises:
        ConfigError: the prompt or the suffix is no text.
        ModelError: none of the models exists, or one cannot be loaded; with
            a suffix, none knows what to do with it.
    """
    prompt = _decoded(prompt)
    suffix = None if suffix is None else _decoded(suffix)
    if suffix is None:
        prompt = prompt.rstrip("\n")  # the line end is the completion's
    present = {
        label: name for label, name in sources.items() if _present(name)
    }
    absent = [name for name in sources.values() if not _present(name)]
    remedy = "`stylerl run` makes them, `dvc repro base` the base alone"
    if not present:
        raise ModelError(
            f"there is no model to complete with: {', '.join(absent)} do not "
            f"exist; {remedy}"
        )
    if absent:
        said = f"passed over: {', '.join(absent)} does not exist; {remedy}"
        print(f"stylerl: {said}", file=sys.stderr, flush=True)
    # Only now, since torch takes seconds.
    from stylerl.lm import models, sampling

    answers = []
    for label, name in present.items():
        tokenizer = models.load_tokenizer(name)
        asked = _question(tokenizer, prompt, suffix)
        if asked is None:
            said = f"passed over: {name} cannot fill in the middle"
            print(f"stylerl: {said}", file=sys.stderr, flush=True)
            continue
        drawn = sampling.generate(
            models.load_causal_lm(name, tokenizer=tokenizer),
            tokenizer,
            [asked],
            **options,
        )
        assessment = judge_between(
            judge, prompt, drawn.judged[0], suffix or "", drawn.finished[0]
        )
        # Beside a suffix, rows count only for what was judged.
        text = drawn.judged[0] if suffix else drawn.texts[0]
        answers.append(Answer(label, prompt, text, assessment, suffix or ""))
    if not answers:
        raise ModelError(
            "--suffix needs a model with fill-in-the-middle tokens; "
            f"{', '.join(present.values())} have none: train one with "
            "sft.fim_share=0.5, or leave the suffix out"
        )
    return answers


def _decoded(text: str) -> str:
    """What was typed in UTF-8, also in the locale C, which has ASCII alone."""
    try:
        return text.encode("utf-8", "surrogateescape").decode()
    except UnicodeError as error:
        raise ConfigError(
            f"a prompt or suffix must be UTF-8; got {shown(text)}: convert "
            "it, as with iconv -f latin1"
        ) from error


def _question(tokenizer: Any, prompt: str, suffix: str | None) -> str | None:
    """What the model is given; None where it does not know suffixes."""
    if suffix is None:
        return prompt
    from stylerl.supervised import fim

    tokens = fim.usable(tokenizer)
    return fim.ask(tokens, prompt, suffix) if tokens else None


def judge_between(
    judge: Judge, prompt: str, completion: str, suffix: str, finished: bool
) -> Assessment:
    """What a completion is charged with, judged with all around it.

    What is found in the suffix was there before, but for a syntax error.
    """
    (verdict,) = judge.completions([prompt], [completion + suffix])
    if suffix:
        text, end = prompt + completion + suffix, len(prompt + completion)
        own = (
            each
            for each in verdict.violations
            if each.code.startswith(SYNTAX) or offset(text, each) < end
        )
        verdict = Verdict(tuple(own), verdict.parsed, verdict.reason)
    return assess(prompt, finished, verdict)


def labelled(folders: Sequence[Path]) -> dict[str, str]:
    """Model folders by their names, or by their paths where names repeat.

    Raises:
        ModelError: one of them is no folder with a model.
    """
    for folder in folders:
        if not Path(folder, "config.json").is_file():
            raise ModelError(
                f"a model must be a folder as the hub has them; {folder} has "
                "no config.json"
            )
    found = {folder.resolve().name: str(folder) for folder in folders}
    if len(found) < len(folders):
        found = {str(folder): str(folder) for folder in folders}
    return found


def show(answers: Sequence[Answer], console: Console) -> None:
    """Print the answers, side by side where the terminal is wide."""
    columns = max(1, min(len(answers), console.width // COLUMN))
    console.print(side_by_side([_panel(each) for each in answers], columns))


def side_by_side(panels: Sequence[Panel], columns: int) -> Table:
    """Panels in rows of so many columns of equal width."""
    grid = Table.grid(expand=True)
    for _ in range(columns):
        grid.add_column(ratio=1)
    for start in range(0, len(panels), columns):
        grid.add_row(*panels[start:][:columns])
    return grid


def _present(name: str) -> bool:
    """A local model exists; a hub name is taken at its word."""
    local = name.startswith(("artifacts/", "models/", ".", "/"))
    return not local or Path(name, "config.json").is_file()


def highlight(source: str) -> Text:
    """Python in syntax colours; what could steer a terminal is pictured."""
    text = markup.visible(source)
    code = Syntax("", "python", theme="ansi_dark").highlight(text)
    code.rstrip()
    return code


def _panel(answer: Answer) -> Panel:
    outcome, parsed, score, violations = answer.assessment
    written = answer.prompt + answer.completion
    text = markup.visible(written + answer.suffix)
    code = highlight(text)
    for span in markup.spans(text, violations):
        code.stylize("underline red", span.start, span.end)
    code.stylize("dim", 0, len(answer.prompt))
    code.stylize("dim", len(written))
    notes = [
        Text(f"{v.row}:{v.col} {v.code} {v.text}", "red") for v in violations
    ]
    verdict = Text(f"{outcome}, score {score:.1f}", COLOURS[outcome])
    body: list[RenderableType] = [code, Text(), verdict, *notes]
    return Panel(Group(*body), title=answer.label, title_align="left")
