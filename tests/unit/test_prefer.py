"""`stylerl prefer` at a terminal: what is shown, asked and kept."""

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
from conftest import write_params
from rich.console import Console

from stylerl.cli import main as cli
from stylerl.cli import prefer_command as prefer
from stylerl.cli.prefer_web import Session
from stylerl.config import Params, PPOConfig
from stylerl.errors import DataError
from stylerl.reward_models import preferences
from stylerl.reward_models.preferences import Answer, Choice, Pair

ANSWERS = Path("preferences.jsonl")
PAIRS = Path("pairs.jsonl")
SHORT = Pair.of("def f(a):", "\n    return a\n", "\n    return a ;\n")
LONG = Pair.of(
    "def f(a):",
    "\n    return a\n",
    "\n    return some_function(a, with_more, arguments_of_it)\n",
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_params()
    ANSWERS.touch()
    rows = [
        {"prompt": f"def f{i}(a):", "a": "\n    return a\n", "b": "\n    a\n"}
        for i in range(3)
    ]
    PAIRS.write_text(pd.DataFrame(rows).to_json(orient="records", lines=True))
    return tmp_path


@pytest.fixture
def type_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Make the given lines the input of a pseudo-terminal."""
    files: list[io.TextIOWrapper] = []

    def send(text: str) -> None:
        master, slave = os.openpty()
        files.append(os.fdopen(master, "wb", buffering=0))
        files.append(os.fdopen(slave))
        files[-2].write(text.encode())
        monkeypatch.setattr("sys.stdin", files[-1])

    yield send
    for file in files:
        file.close()


def shown(pair: Pair, width: int) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width)
    sides = Session([pair], "ann", 0, ANSWERS).sides()
    console.print(prefer.view(pair.prompt, sides, "pair 1 of 9", width))
    lines = out.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    return lines


def row_of(lines: list[str], text: str) -> int:
    (row,) = [i for i, line in enumerate(lines) if text in line]
    return row


@pytest.mark.parametrize(
    ("pair", "width", "beside"),
    [
        (SHORT, 80, True),
        (LONG, 80, False),  # a line of 55 does not fit in 36 columns
        (LONG, 160, True),
        (SHORT, 160, True),
    ],
)
def test_a_and_b_stand_beside_each_other_where_they_fit(
    pair: Pair, width: int, beside: bool
) -> None:
    lines = shown(pair, width)
    assert (row_of(lines, "─ A ─") == row_of(lines, "─ B ─")) == beside
    assert row_of(lines, "def f(a):") < row_of(lines, "─ A ─")
    assert any(pair.b.strip() in line for line in lines)


@pytest.mark.parametrize("swapped", [False, True])
def test_swapped_shows_the_other_text_as_a(
    swapped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preferences, "is_swapped", lambda *_: swapped)
    lines = shown(SHORT, 80)
    # the semicolon is in the pair's b
    a, _, b = lines[row_of(lines, "─ A ─") + 1].partition("││")
    assert (";" in a, ";" in b) == (swapped, not swapped)


def test_answers_are_kept_as_the_pair_names_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pairs = preferences.read_pairs(PAIRS)
    swapped = dict(zip(pairs, (False, True, True), strict=True))
    monkeypatch.setattr(preferences, "is_swapped", lambda p, *_: swapped[p])
    typed = iter(["a", "3", "x", " A ", "0", "1", "t", "2"])
    session = Session(pairs, "ann", 0, ANSWERS)
    console = Console(file=io.StringIO())
    prefer.ask_all(session, console, lambda _: next(typed))
    assert session.given == 3
    assert preferences.load(ANSWERS) == [
        Answer("ann", pairs[0], Choice.A, 3),
        Answer("ann", pairs[1], Choice.B, 1),  # what was shown as A
        Answer("ann", pairs[2], Choice.TIE, 2),
    ]


def command(*more: str) -> int:
    return cli.main(
        ["prefer", "--from", str(PAIRS), "--annotator", "ann", *more]
    )


@pytest.mark.parametrize("end", ["q\n", "b\nq\n", "\x04", "b\n\x04"])
def test_leaving_keeps_all_and_the_rest_is_asked_next_time(
    end: str, type_in: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    type_in("a\n2\n" + end)
    assert command() == 0
    assert len(preferences.load(ANSWERS)) == 1
    assert "3 of 3 pairs wait for ann" in capsys.readouterr().out
    type_in("b\n3\nt\n1\n")
    assert command() == 0
    out = capsys.readouterr().out
    assert "2 of 3 pairs wait for ann" in out
    assert "2 answers saved to preferences.jsonl" in out
    assert len({answer.pair for answer in preferences.load(ANSWERS)}) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "its input must be a terminal"),
        (["--from", "nowhere.jsonl"], "nowhere.jsonl must be readable"),
        (["--from", "/dev/null"], "/dev/null must give a pair"),
    ],
)
def test_what_is_refused(
    arguments: list[str],
    message: str,
    type_in: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if arguments:
        type_in("")
    else:
        monkeypatch.setattr("sys.stdin", io.StringIO("a\n1\n"))
    assert command(*arguments) == 2
    assert message in capsys.readouterr().err
    assert ANSWERS.read_text() == ""


def labels(count: int) -> pd.DataFrame:
    texts = [f"def f{i}(a):\n    return a\n" for i in range(count)]
    return pd.DataFrame(
        {
            "text": texts,
            "body_start": [text.index("\n") for text in texts],
            "split": "train",
            "compliant": False,
        }
    )


def labelled(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Labels, of functions whose files are not at hand."""
    monkeypatch.setattr(prefer.storage, "read_table", lambda _: labels(count))
    monkeypatch.setattr(prefer.places, "places_of_labels", lambda *_: {})


def test_pairs_are_sampled_for_training_prompts(
    folder: Path, llama_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefer.paths, "PPO", llama_folder)
    labelled(monkeypatch, 40)
    params = Params(ppo=PPOConfig(max_new_tokens=48, temperature=3.0))
    pairs = prefer.sample(params, 40)
    assert pairs == prefer.sample(params, 40)
    prompts = [pair.prompt for pair in pairs]
    assert len(set(prompts)) == len(prompts) >= 1
    assert set(prompts) <= {f"def f{i}(a):" for i in range(40)}
    assert all(pair.a < pair.b for pair in pairs)


def test_without_models_or_prompts_the_error_says_what_to_do(
    llama_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match="`stylerl run` makes it"):
        prefer.sample(Params(), 4)
    monkeypatch.setattr(prefer.paths, "SFT", llama_folder)
    labelled(monkeypatch, 0)
    with pytest.raises(DataError, match=r"raise label\.snippets"):
        prefer.sample(Params(), 4)
