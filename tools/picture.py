"""Draw docs/before-after.svg: one held-out prompt, completed before and after.

    python -m tools.picture          part of `make results`

Where artifacts/evaluate/completions.parquet is at hand, the example is chosen
from it by RULE and kept in docs/before-after.json.  The picture is a function
of that file and of metrics/evaluate.json, so it can be drawn again without a
run.  A character takes the same width in every font (`textLength`), so that
the underlines meet the text; the colours follow the reader's light or dark
scheme, on a background of the picture's own.
"""

import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from stylerl import storage
from stylerl.errors import DataError
from stylerl.judge.outcome import Outcome
from stylerl.judge.verdict import Violation
from stylerl.report import summary
from stylerl.report.markup import spans, visible

ROOT = Path(__file__).resolve().parent.parent
COMPLETIONS = Path("artifacts/evaluate/completions.parquet")
SNIPPETS = Path("artifacts/filter/snippets.parquet")
METRICS = Path("metrics/evaluate.json")
EXAMPLE = Path("docs/before-after.json")
PICTURE = Path("docs/before-after.svg")

VIOLATIONS = range(1, 4)  # of the completion before
LINES = range(3, 13)  # with content, of each completion
COLUMNS = 52  # of the longest line that a panel holds
RULE = (
    "the first prompt, by id, that is a signature alone, where SFT's sample "
    f"0 has {VIOLATIONS[0]} to {VIOLATIONS[-1]} violations, PPO's sample 0 "
    "is compliant and not trivial, and both are finished, with "
    f"{LINES[0]} to {LINES[-1]} lines of at most {COLUMNS} columns"
)

WIDTH, MARGIN, GAP, PAD = 900, 24, 16, 14
PANEL = (WIDTH - 2 * MARGIN - GAP) // 2
GLYPH, LINE = 7.2, 20  # one character of 12px, one line
BAR, SCALE = 14, 5.2  # height of a bar, pixels for a per cent
WRAPPED = 132  # characters in a line of the caption
STYLE = """
  .card { fill: #ffffff; stroke: #d0d7de }
  .panel { fill: #f6f8fa; stroke: #d0d7de }
  text { fill: #1f2328; font: 13px system-ui, sans-serif }
  .code { font: 12px ui-monospace, Menlo, Consolas, monospace }
  .code, .kept { white-space: pre }
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
        storage.write_json(ROOT / EXAMPLE, as_json(example))
    example = from_json(storage.read_json(ROOT / EXAMPLE))
    storage.write_text(ROOT / PICTURE, draw(example, metrics))
    print(f"{PICTURE}: prompt {example.id}")
    return 0


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
) -> Example:
    """The first example by RULE.

    Raises:
        DataError: no prompt fits.
    """
    first = completions[completions["sample"] == 0]
    before, after = (
        first[first["model"] == model].set_index("prompt_id")
        for model in ("sft", "ppo")
    )
    for prompt_id in sorted({*before.index} & {*after.index}):
        sft, ppo = before.loc[prompt_id], after.loc[prompt_id]
        if _fits(sft, ppo):
            return Example(
                prompt_id,
                sft["prompt"],
                (origin or {}).get(prompt_id, ""),
                _side("SFT", sft),
                _side("PPO", ppo),
            )
    raise DataError(
        f"the picture shows {RULE}; none of {len(before)} prompts is one: "
        "run the default preset, or raise evaluate.prompts"
    )


def _fits(sft: pd.Series, ppo: pd.Series) -> bool:
    """Whether two rows of one prompt are as RULE says."""
    return (
        '"""' not in sft["prompt"]
        and "'''" not in sft["prompt"]
        and sft["outcome"] == Outcome.VIOLATIONS
        and len(sft["codes"]) in VIOLATIONS
        and ppo["outcome"] == Outcome.COMPLIANT
        and not ppo["trivial"]
        and all(_is_shown(row["completion"]) for row in (sft, ppo))
    )


def _is_shown(completion: str) -> bool:
    """Whether a panel holds it, and it is worth a panel."""
    lines = [line for line in completion.splitlines() if line.strip()]
    return len(lines) in LINES and max(map(len, lines)) <= COLUMNS


def _side(label: str, row: pd.Series) -> Side:
    found = zip(
        row["rows"], row["cols"], row["codes"], row["texts"], strict=True
    )
    return Side(
        label,
        row["completion"],
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
            tuple(Violation(*each) for each in kept[key]["violations"]),
        )
        for key in ("before", "after")
    )
    return Example(kept["id"], kept["prompt"], kept["origin"], before, after)


def draw(example: Example, metrics: Mapping[str, Any]) -> str:
    """The picture as SVG."""
    prompt = example.prompt.rstrip("\n").split("\n")
    top: float = MARGIN + 34
    parts = [
        _text(MARGIN, MARGIN + 12, "A prompt that no training saw", "strong"),
        *_code(MARGIN, top + 2, prompt),
    ]
    top += LINE * len(prompt) + 2
    sides = (example.before, example.after)
    panels = [_panel(example.prompt, side) for side in sides]
    height = max(tall for _, tall in panels)
    for number, (drawn, _) in enumerate(panels):
        x = MARGIN + number * (PANEL + GAP)
        parts += [
            f'<rect class="panel" x="{x}" y="{top}" width="{PANEL}" '
            f'height="{height}" rx="6"/>',
            f'<g transform="translate({x + PAD} {top})">{drawn}</g>',
        ]
    top += height + 36
    bars, top = _bars(metrics, top)
    notes, bottom = _caption(example, metrics, top)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" '
        f'viewBox="0 0 {WIDTH} {bottom}" width="{WIDTH}" '
        f'height="{bottom}">\n'
        f"<title>{_clean(summary.headline(metrics))}</title>\n"
        f"<style>{STYLE}</style>\n"
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" '
        f'height="{bottom - 1}" rx="8"/>\n'
        + "\n".join([*parts, *bars, *notes])
        + "\n</svg>\n"
    )


def _panel(prompt: str, side: Side) -> tuple[str, int]:
    """A completion with its verdict, and how tall it is."""
    found = side.violations
    verdict = (
        f"{len(found)} violation{'s' if len(found) > 1 else ''}"
        if found
        else "compliant"
    )
    style = "bad" if found else "good"
    offset = len(side.label) * 9 + 10
    parts = [
        _text(0, 26, side.label, "strong"),
        _text(offset, 26, verdict, f"strong {style}"),
    ]
    whole = prompt + side.completion
    start = whole.count("\n", 0, len(prompt)) + (whole[len(prompt)] == "\n")
    lines = whole.rstrip("\n").split("\n")
    y = 54
    parts += _code(0, y, lines[start:])
    for row, left, right in _underlined(whole, found):
        parts.append(_wave(left, right, y + 5 + LINE * (row - start)))
    for row in sorted({each.row - 1 for each in found}):
        codes = [each.code for each in found if each.row - 1 == row]
        x = PANEL - 2 * PAD - GLYPH * len(" ".join(codes))
        label = _code(x, y + LINE * (row - start), [" ".join(codes)], " bad")
        parts += label
    y += LINE * (len(lines) - start)
    for message in dict.fromkeys(f"{v.code} {v.text}" for v in found):
        parts.append(_text(0, y + 4, message, "small bad"))
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
    compliance = summary.TABLE[0]
    gain = summary.show_gain(compliance, metrics["gain"])
    parts = [
        _text(MARGIN, y, "Compliance on all held-out prompts", "strong"),
        _text(MARGIN + 250, y, f"PPO - SFT {gain} points", "soft"),
    ]
    rows = {"sft": "SFT", "ppo": "PPO", "human": "the authors' own code"}
    for key, label in rows.items():
        y += 24
        value = metrics[key]["compliance"]
        x, wide = MARGIN + 170, 100 * SCALE
        parts += [
            _text(MARGIN, y, label, ""),
            _rect("track", x, y - 11, wide),
            _rect(key, x, y - 11, wide * value),
            _text(
                x + wide + 12,
                y,
                f"{summary.show(compliance, value)}%",
                "strong",
            ),
        ]
    return parts, y + 32


def _rect(style: str, x: float, y: float, wide: float) -> str:
    return (
        f'<rect class="{style}" x="{x:g}" y="{y:g}" width="{wide:g}" '
        f'height="{BAR}" rx="3"/>'
    )


def _caption(
    example: Example, metrics: Mapping[str, Any], y: float
) -> tuple[list[str], float]:
    """How the example was chosen and what the bars rest on."""
    origin = f" Signature from {example.origin}." if example.origin else ""
    words = f"The example is {RULE}.{origin} {summary.basis(metrics)}"
    lines = textwrap.wrap(words, WRAPPED)
    parts = [
        _text(MARGIN, y + 17 * number, line, "small soft")
        for number, line in enumerate(lines)
    ]
    return parts, y + 17 * len(lines) + 6


def _text(x: float, y: float, words: str, style: str) -> str:
    return f'<text class="{style}" x="{x:g}" y="{y:g}">{_clean(words)}</text>'


def _clean(words: str) -> str:
    """Untrusted text as SVG's text."""
    return escape(visible(words), quote=True)


if __name__ == "__main__":
    sys.exit(main())
