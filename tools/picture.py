"""Draw docs/before-after.svg: one held-out prompt, completed before and after.

    make results          after `make run`

Where artifacts/evaluate/completions.parquet is at hand, the example is chosen
from it by RULE and kept in docs/before-after.json.  The picture is a function
of that file and of metrics/evaluate.json, so it can be drawn again without a
run; where no prompt fits the rule, it shows the bars alone.  A character takes
the same width in every font (`textLength`), so that the underlines meet the
text; the colours follow the reader's light or dark scheme, on a background of
the picture's own.
"""

import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from stylerl import storage
from stylerl.errors import DataError
from stylerl.evaluation import display, guards
from stylerl.judge.outcome import Outcome
from stylerl.judge.verdict import Violation
from stylerl.report import summary
from stylerl.report.markup import spans, visible
from stylerl.reward.gaming import repeated_line_share

ROOT = Path(__file__).resolve().parent.parent
COMPLETIONS = Path("artifacts/evaluate/completions.parquet")
SNIPPETS = Path("artifacts/filter/snippets.parquet")
METRICS = Path("metrics/evaluate.json")
EXAMPLE = Path("docs/before-after.json")
PICTURE = Path("docs/before-after.svg")

LINES = range(3, 13)  # with content, of each function
COLUMNS = 44  # of the longest line, so that the codes have room beside it
RULE = (
    "of the prompts that are a signature alone, where SFT does not comply, "
    "nor after the fixer, and PPO does, by a function of "
    f"{LINES[0]} to {LINES[-1]} lines, its body of at most {COLUMNS} columns, "
    "whose names all resolve and whose lines differ, the one in which PPO is "
    "nearest to the author; "
    "longer lines of SFT's are cut"
)

WIDTH, MARGIN, GAP, PAD = 960, 24, 16, 14
PANEL = (WIDTH - 2 * MARGIN - GAP) // 2
GLYPH, LINE = 7.2, 20  # one character of 12px, one line
BAR, SCALE = 14, 6  # height of a bar, pixels for a per cent
RUN = 12  # pixels between two runs of words
WRAPPED = 140  # characters in a line of the caption
STYLE = """
  .card { fill: #ffffff; stroke: #d0d7de }
  .panel { fill: #f6f8fa; stroke: #d0d7de }
  text { fill: #1f2328; font: 13px system-ui, sans-serif }
  .code { font: 12px ui-monospace, Menlo, Consolas, monospace }
  .code { white-space: pre }
  .strong { font-weight: 600 }
  .small { font-size: 11.5px }
  .soft { fill: #59636e }
  .bad { fill: #b3261e }
  .good { fill: #116329 }
  .wave { fill: none; stroke: #b3261e; stroke-width: 1.4 }
  .track { fill: #e4e8ec }
  .sft { fill: #9a6700 }
  .ppo { fill: #1a7f37 }
  .human { fill: #6e7781 }
  @media (prefers-color-scheme: dark) {
    .card { fill: #0d1117; stroke: #3d444d }
    .panel { fill: #151b23; stroke: #3d444d }
    text { fill: #f0f6fc }
    .soft { fill: #9198a1 }
    .bad { fill: #ff8e85 }
    .good { fill: #56d364 }
    .wave { stroke: #ff8e85 }
    .track { fill: #2a313c }
    .sft { fill: #d29922 }
    .ppo { fill: #3fb950 }
  }
"""


class Side(NamedTuple):
    """One model's completion of the prompt, and what the judge charged."""

    label: str
    completion: str
    outcome: str
    violations: tuple[Violation, ...]  # rows and columns of the whole text


class Example(NamedTuple):
    """The prompt of the picture with both completions."""

    id: str
    prompt: str
    origin: str  # distribution, version, licence; empty if not known
    before: Side
    after: Side


def main() -> int:
    """Choose the example, where there is something to choose from; draw it."""
    metrics = storage.read_json(ROOT / METRICS)
    if (ROOT / COMPLETIONS).exists():
        completions = storage.read_table(ROOT / COMPLETIONS)
        check_same_run(completions, metrics)
        example = choose(completions, origins(ROOT / SNIPPETS))
        kept = as_json(example) if example else {}
        storage.write_json(ROOT / EXAMPLE, kept)
    storage.write_text(ROOT / PICTURE, draw(kept_example(), metrics))
    return 0


def kept_example() -> Example | None:
    """The example of docs/before-after.json; None where there is none."""
    kept = storage.read_json(ROOT / EXAMPLE)
    return from_json(kept) if kept else None


def check_same_run(
    completions: pd.DataFrame, metrics: Mapping[str, Any]
) -> None:
    """Refuse an example and bars of two different runs.

    Raises:
        DataError: the completions are not those of the metrics.
    """
    for model in ("sft", "ppo"):
        own = completions.loc[completions["model"] == model, "outcome"]
        share = float((own == Outcome.COMPLIANT).mean())
        stated = metrics[model]["compliance"]
        if abs(share - stated) > 1e-6:
            raise DataError(
                f"{COMPLETIONS} must be of the run that {METRICS} is of; "
                f"compliance of {model} is {share} in the one and {stated} "
                "in the other: run `stylerl run` again"
            )


def origins(snippets: Path) -> dict[str, str]:
    """Where each snippet comes from, by its id; nothing without the table."""
    if not snippets.exists():
        return {}
    table = storage.read_table(snippets)
    return {
        row["id"]: f"{row['distribution']} {row['version']}, {row['licence']}"
        for row in table.to_dict("records")
    }


def choose(
    completions: pd.DataFrame, origin: Mapping[str, str] | None = None
) -> Example | None:
    """The example by RULE; None where no prompt fits."""
    before, after = (
        completions[completions["model"] == model].set_index(
            ["sample", "prompt_id"]
        )
        for model in ("sft", "ppo")
    )
    both = sorted({*before.index} & {*after.index})
    fit = [at for at in both if _fits(before.loc[at], after.loc[at])]
    if not fit:
        return None
    human = completions[completions["model"] == "human"]
    own = human.set_index("prompt_id")["completion"]

    def nearness(at: tuple[int, str]) -> float:
        texts = own.get(at[1], ""), after.loc[at, "completion"]
        return SequenceMatcher(None, *texts, autojunk=False).ratio()

    place = max(fit, key=nearness)  # the first
    sft, ppo = before.loc[place], after.loc[place]
    _, prompt_id = place
    return Example(
        prompt_id,
        sft["prompt"],
        (origin or {}).get(prompt_id, ""),
        _side("SFT", sft),
        _side("PPO", ppo),
    )


def _fits(sft: pd.Series, ppo: pd.Series) -> bool:
    """Whether two rows of one prompt are as RULE says."""
    widths = map(len, _shown(ppo["completion"]).split("\n"))
    return (
        '"""' not in sft["prompt"]
        and "'''" not in sft["prompt"]
        and sft["outcome"] == Outcome.VIOLATIONS
        and sft["fixed_outcome"] != Outcome.COMPLIANT
        and ppo["outcome"] == Outcome.COMPLIANT
        and not ppo["trivial"]
        and ppo["names"] == 1
        and not repeated_line_share(ppo["completion"])
        and _height(sft) <= LINES[-1]
        and _height(ppo) in LINES
        and max(widths) <= COLUMNS
    )


def _height(row: pd.Series) -> int:
    """How many lines of the function have content."""
    whole = (row["prompt"] + row["completion"]).split("\n")
    return len([*filter(str.strip, whole)])


def _side(label: str, row: pd.Series) -> Side:
    found = zip(
        row["rows"], row["cols"], row["codes"], row["texts"], strict=True
    )
    return Side(
        label,
        row["completion"],
        row["outcome"],
        tuple(Violation(int(r), int(c), code, t) for r, c, code, t in found),
    )


def as_json(example: Example) -> dict[str, Any]:
    """What docs/before-after.json keeps."""
    return {
        "id": example.id,
        "prompt": example.prompt,
        "origin": example.origin,
        **{
            key: side._asdict() | {"violations": [*map(list, side.violations)]}
            for key, side in (
                ("before", example.before),
                ("after", example.after),
            )
        },
    }


def from_json(kept: Mapping[str, Any]) -> Example:
    """What `as_json` kept."""
    before, after = (
        Side(
            kept[key]["label"],
            kept[key]["completion"],
            kept[key]["outcome"],
            tuple(Violation(*each) for each in kept[key]["violations"]),
        )
        for key in ("before", "after")
    )
    return Example(kept["id"], kept["prompt"], kept["origin"], before, after)


def draw(example: Example | None, metrics: Mapping[str, Any]) -> str:
    """The picture as SVG: example, bars, caption, from top to bottom."""
    parts: list[str] = []
    y: float = MARGIN + 12
    if example:
        drawn, y = _example(example, y)
        parts += drawn
    bars, y = _bars(metrics, y)
    notes, height = _caption(example, metrics, y)
    body = "\n".join([*parts, *bars, *notes])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" '
        f'viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" '
        f'height="{height:g}">\n'
        f"<title>{_clean(summary.headline(metrics))}</title>\n"
        f"<style>{STYLE}</style>\n"
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" '
        f'height="{height - 1:g}" rx="8"/>\n{body}\n</svg>\n'
    )


def _example(example: Example, y: float) -> tuple[list[str], float]:
    """The prompt and both panels, and where the next thing goes."""
    prompt = example.prompt.rstrip("\n").split("\n")
    words = _words(
        MARGIN,
        y,
        ("strong", "A prompt that no training saw"),
        (
            "soft",
            "in training, a violation charges the token that wrote it; an "
            "unused name the body",
        ),
    )
    parts = [words, *_code(MARGIN, y + 24, prompt)]
    y += 24 + LINE * len(prompt)
    sides = (example.before, example.after)
    panels = [_panel(example.prompt, side) for side in sides]
    height = max(tall for _, tall in panels)
    for number, (drawn, _) in enumerate(panels):
        x = MARGIN + number * (PANEL + GAP)
        parts += [
            f'<rect class="panel" x="{x}" y="{y:g}" width="{PANEL}" '
            f'height="{height}" rx="6"/>',
            f'<g transform="translate({x + PAD} {y:g})">{drawn}</g>',
        ]
    return parts, y + height + 36


def _panel(prompt: str, side: Side) -> tuple[str, int]:
    """A completion with its verdict, and how tall it is."""
    found = side.violations
    good = side.outcome == Outcome.COMPLIANT
    verdict = ("strong good" if good else "strong bad", side.outcome)
    if side.outcome == Outcome.VIOLATIONS:
        plural = "s" if len(found) > 1 else ""
        verdict = ("strong bad", f"{len(found)} violation{plural}")
    parts = [_words(0, 26, ("strong", side.label), verdict)]
    whole = prompt + side.completion
    lines = whole.rstrip("\n").split("\n")
    start = prompt.count("\n") + side.completion.startswith("\n")
    parts += _code(0, 54, [*map(_cut, lines[start:])])
    for row, left, right in _underlined(whole, found):
        if left < COLUMNS and row < len(lines):
            right = min(right, COLUMNS)
            parts.append(_wave(left, right, 59 + LINE * (row - start)))
    # Blank lines at the end are not shown; their codes stand at the last.
    shown = [v._replace(row=min(v.row, len(lines))) for v in found]
    for row in sorted({each.row - 1 for each in shown}):
        codes = " ".join(v.code for v in shown if v.row - 1 == row)
        x = PANEL - 2 * PAD - GLYPH * len(codes)
        parts += _code(x, 54 + LINE * (row - start), [codes], " bad")
    y = 54 + LINE * (len(lines) - start)
    for message in dict.fromkeys(f"{v.code} {v.text}" for v in found):
        parts.append(_words(0, y + 4, ("small bad", message)))
        y += 18
    return "".join(parts), y


def _underlined(
    whole: str, found: Sequence[Violation]
) -> Iterator[tuple[int, float, float]]:
    """Row and both columns of each underline, rows counted from zero."""
    for span in spans(whole, found):
        row = whole.count("\n", 0, span.start)
        head = whole.rfind("\n", 0, span.start) + 1
        left = len(_shown(whole[head : span.start]))
        width = len(_shown(whole[span.start : span.end].partition("\n")[0]))
        yield row, left, left + max(width, 1)


def _cut(line: str) -> str:
    """A line that the panel holds."""
    shown = _shown(line)
    return line if len(shown) <= COLUMNS else f"{shown[: COLUMNS - 1]}…"


def _shown(text: str) -> str:
    """Text with its tabs and control characters to be seen."""
    return visible(text.replace("\t", "→   "))


def _code(
    x: float, y: float, lines: Sequence[str], style: str = ""
) -> list[str]:
    """Lines of code, each character GLYPH wide; no element for blank ones."""
    parts = []
    for number, line in enumerate(map(_shown, lines)):
        bare = line.strip(" ")
        if bare:
            left = x + GLYPH * (len(line) - len(line.lstrip(" ")))
            parts.append(
                f'<text class="code{style}" x="{left:g}" '
                f'y="{y + LINE * number:g}" xml:space="preserve" '
                f'textLength="{GLYPH * len(bare):g}">{_clean(bare)}</text>'
            )
    return parts


def _wave(left: float, right: float, y: float) -> str:
    """A wavy line under the columns `left` to `right`."""
    x, steps = left * GLYPH, max(round((right - left) * GLYPH / 4), 2)
    turns = "".join(f"l2 {-2 if i % 2 else 2}" for i in range(2 * steps))
    return f'<path class="wave" d="M{x:g} {y:g}{turns}"/>'


def _bars(metrics: Mapping[str, Any], y: float) -> tuple[list[str], float]:
    """Compliance of SFT, PPO and people, and where the next thing goes."""
    compliance = display.metric_of("compliance")
    cut = display.show(guards.CUT, metrics["gain"].get(guards.CUT.key))
    parts = [
        _words(
            MARGIN,
            y,
            ("strong", "Compliance on all held-out prompts"),
            ("soft", f"non-compliance cut by {cut}%"),
        )
    ]
    rows = {"sft": "SFT", "ppo": "PPO", "human": "the authors' own code"}
    for key, label in rows.items():
        y += 24
        value = metrics[key]["compliance"]
        x, wide = MARGIN + 170, 100 * SCALE
        parts += [
            _words(MARGIN, y, ("", label)),
            _rect("track", x, y - 11, wide),
            _rect(key, x, y - 11, wide * value),
            _words(
                x + wide + 12,
                y,
                ("strong", f"{display.show(compliance, value)}%"),
            ),
        ]
    return parts, y + 32


def _rect(style: str, x: float, y: float, wide: float) -> str:
    return (
        f'<rect class="{style}" x="{x:g}" y="{y:g}" width="{wide:g}" '
        f'height="{BAR}" rx="3"/>'
    )


def _caption(
    example: Example | None, metrics: Mapping[str, Any], y: float
) -> tuple[list[str], float]:
    """How the example was chosen, what the bars rest on, and the end."""
    words = summary.basis(metrics)
    if example:
        origin = f" Signature: {example.origin}." if example.origin else ""
        words = f"The example is {RULE}.{origin} {words}"
    lines = textwrap.wrap(words, WRAPPED)
    parts = [
        _words(MARGIN, y + 17 * number, ("small soft", line))
        for number, line in enumerate(lines)
    ]
    return parts, y + 17 * len(lines) + 6


def _words(x: float, y: float, *runs: tuple[str, str]) -> str:
    """One line of words, each run of them in a style of its own."""
    pieces = [
        f'<tspan class="{style}" dx="{RUN if number else 0}">'
        f"{_clean(words)}</tspan>"
        for number, (style, words) in enumerate(runs)
    ]
    return f'<text x="{x:g}" y="{y:g}">{"".join(pieces)}</text>'


def _clean(words: str) -> str:
    """Untrusted text as SVG's text."""
    return escape(visible(words), quote=True)


if __name__ == "__main__":
    sys.exit(main())
