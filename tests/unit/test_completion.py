"""Completions side by side in the terminal, with verdicts."""

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from stylerl.cli.complete_command import (
    Answer,
    complete,
    growing,
    place_in,
    show,
)
from stylerl.errors import DataError, ModelError
from stylerl.judge.outcome import Assessment, Outcome
from stylerl.judge.verdict import Violation
from stylerl.lm import sampling

PROMPT = "def f(a, b):\n"


def answer(label, completion="    return a+b ;\n", violations=()):
    outcome = Outcome.VIOLATIONS if violations else Outcome.COMPLIANT
    score = 1 - len(violations) / 10
    return Answer(
        label,
        PROMPT,
        completion,
        Assessment(outcome, True, score, tuple(violations)),
    )


def printed(answers, width):
    out = io.StringIO()
    show(answers, Console(file=out, width=width))
    return out.getvalue()


@pytest.fixture
def answers(judge, llama_folder):
    """What models, or the base alone, say to a prompt, in 8 tokens."""

    def ask(prompt=PROMPT, sources=None, seed=0, **more):
        options = {"max_new_tokens": 8, "temperature": 1.0, "seed": seed}
        sources = sources or {"base": str(llama_folder)}
        return complete(prompt, sources, judge, options, **more)

    return ask


def test_the_same_model_and_seed_give_the_same_answer(answers, llama_folder):
    sources = {"base": str(llama_folder), "SFT": str(llama_folder)}

    base, sft = answers(sources=sources)
    other, _ = answers(sources=sources, seed=1)

    assert (base.label, sft.label) == ("base", "SFT")
    assert base.completion == sft.completion
    assert base.completion != other.completion


CLEAN, EQUAL = "\n    return a\n", "\n    return b\n"
ROUGH, WORSE = "\n    return a ;\n", "\n    return  a ;\n"
BROKEN, CUT = "\n    return (\n", "\n    return b\n    ret"


@pytest.mark.parametrize(
    ("draws", "best"),
    [
        ([ROUGH, CLEAN], CLEAN),
        ([CLEAN, EQUAL], CLEAN),  # the first of equals
        ([WORSE, ROUGH], ROUGH),
        ([BROKEN, ROUGH], ROUGH),
        ([CUT, ROUGH], CUT),  # neither complies: no violation, score 1
        ([CUT, CLEAN], CLEAN),
    ],
)
def test_of_several_the_answer_is_the_linter_s_choice(
    draws, best, answers, monkeypatch
):
    def generate(model, tokenizer, prompts, **_):
        assert prompts == ["def f(a, b):"] * 2
        return SimpleNamespace(
            texts=draws, finished=[text != CUT for text in draws]
        )

    monkeypatch.setattr(sampling, "generate", generate)
    (found,) = answers(best_of=2)
    assert found.completion == best


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_prompt_is_utf_8_whatever_the_locale(answers, end):
    """The locale C, of which an image may have no other, knows no letters
    beyond ASCII: their bytes stay what they are, as surrogates.  A line end
    is left to the completion."""
    typed = f"def größe(a, b):{end}".encode()
    (found,) = answers(typed.decode("ascii", "surrogateescape"))
    assert found.prompt == "def größe(a, b):"


def test_a_completion_is_told_as_it_grows(answers):
    told = []
    (found,) = answers(watch=lambda label, text: told.append((label, text)))
    assert {label for label, _ in told} == {"base"}
    texts = [text for _, text in told]
    assert texts[-1] == found.completion
    assert len(texts) > 1
    assert all(map(len, texts[1:])) and texts == sorted(texts, key=len)


FILE = "import os\n\n\nclass A:\n    def f(self):\n        return 1\n"


@pytest.mark.parametrize(
    ("name", "above"),
    [
        ("a.py", FILE),
        ("a.py:7", FILE),
        ("a.py:5", FILE[:21]),
        ("a.py:1", ""),
        ("empty.py", ""),
    ],
)
def test_a_prompt_stands_below_its_file_or_above_a_line_of_it(
    name, above, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text(FILE)
    Path("empty.py").touch()
    prompt = '    def g(self):\n        """A."""'
    place = place_in(name, prompt)
    assert place.above == above
    placed = place.put("\n    return os.sep\n")
    whole = above + prompt + "\n        return os.sep\n"
    below = "" if name == "empty.py" else FILE[len(above) :]
    assert placed.source.content.decode().rstrip("\n") == (
        whole + below
    ).rstrip("\n")


def test_what_stands_above_is_given_and_judged_with(
    answers, tmp_path, monkeypatch
):
    """16 tokens of context at most; a name that the file binds is defined."""
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text(FILE)
    given = []

    def generate(model, tokenizer, prompts, *, encode, **_):
        given.extend(map(encode, prompts))
        return SimpleNamespace(
            texts=["\n    return os.sep\n"], finished=[True]
        )

    monkeypatch.setattr(sampling, "generate", generate)
    prompt = "    def g(self):"
    (found,) = answers(prompt, above="a.py", context=16)
    (alone,) = answers(prompt)
    assert found.prompt == alone.prompt == "def g(self):"
    assert len(given[1]) < len(given[0]) <= len(given[1]) + 16
    codes = [v.code for v in alone.assessment.violations]
    assert found.assessment.violations == () and codes == ["F821"]


def test_what_stands_above_must_be_readable_and_of_use(answers, tmp_path):
    with pytest.raises(DataError, match="cannot read .*no.py: "):
        answers(above=str(tmp_path / "no.py:3"))
    broken = tmp_path / "b.py"
    broken.write_text("class A:\n")
    with pytest.raises(DataError, match="cannot read .*b.py: expected an ind"):
        answers(above=str(broken))
    file = tmp_path / "m.gguf"
    file.write_bytes(b"GGUF")
    source = tmp_path / "a.py"
    source.write_text(FILE)
    for line in (0, 8):
        with pytest.raises(DataError, match=f"6 lines; got .*a.py:{line}"):
            answers(above=f"{source}:{line}")
    with pytest.raises(ModelError, match="name the folder"):
        answers(sources={"m": str(file)}, above=str(source))


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_shows_it_and_a_file_does_not(terminal):
    out = io.StringIO()
    with growing(Console(file=out, force_terminal=terminal)) as watch:
        watch("base", "    return a")
    assert ("return" in out.getvalue()) == terminal


def test_a_gguf_file_is_for_llama_cpp(answers, tmp_path, monkeypatch):
    file = tmp_path / "m.gguf"
    file.write_bytes(b"GGUF")
    monkeypatch.setitem(sys.modules, "xllamacpp", None)  # as if it were not
    with pytest.raises(ModuleNotFoundError, match="xllamacpp"):
        answers(sources={"m": str(file)})


def test_models_not_made_yet_are_passed_over(answers, llama_folder, tmp_path):
    absent = str(tmp_path / "ppo")
    found = answers(sources={"base": str(llama_folder), "PPO": absent})

    assert [each.label for each in found] == ["base"]
    with pytest.raises(ModelError, match="stylerl run"):
        answers(sources={"PPO": absent})


def test_a_wide_terminal_shows_the_answers_beside_each_other():
    shown = [answer("base"), answer("SFT"), answer("PPO")]

    wide, narrow = printed(shown, 160), printed(shown, 80)

    assert any(
        all(label in line for label in ("base", "SFT", "PPO"))
        for line in wide.splitlines()
    )
    assert not any(
        "base" in line and "PPO" in line for line in narrow.splitlines()
    )
    assert all(label in narrow for label in ("base", "SFT", "PPO"))


def test_verdict_and_violations_are_listed():
    found = [Violation(2, 15, "E203", "whitespace before ';'")]

    text = printed([answer("PPO", violations=found)], 80)

    assert "violations, score 0.9" in text
    assert "2:15 E203 whitespace before ';'" in text
    assert "compliant, score 1.0" in printed([answer("PPO")], 80)


def test_a_completion_cannot_steer_the_terminal_or_its_markup():
    evil = "    x = '\x1b[2J[red]'\n    y = '[/]'\r\n"

    text = printed([answer("PPO", completion=evil)], 80)

    assert "\x1b" not in text
    assert "␛[2J[red]" in text
    assert "[/]" in text
