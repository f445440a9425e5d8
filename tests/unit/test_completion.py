"""Completions side by side in the terminal, with verdicts."""

import io
import sys

import pytest
from rich.console import Console

from stylerl.cli.complete_command import Answer, complete, growing, show
from stylerl.errors import ModelError
from stylerl.judge.outcome import Assessment, Outcome
from stylerl.judge.verdict import Violation

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

    def ask(prompt=PROMPT, sources=None, seed=0, **watching):
        options = {"max_new_tokens": 8, "temperature": 1.0, "seed": seed}
        sources = sources or {"base": str(llama_folder)}
        return complete(prompt, sources, judge, options, **watching)

    return ask


def test_the_same_model_and_seed_give_the_same_answer(answers, llama_folder):
    sources = {"base": str(llama_folder), "SFT": str(llama_folder)}

    base, sft = answers(sources=sources)
    other, _ = answers(sources=sources, seed=1)

    assert (base.label, sft.label) == ("base", "SFT")
    assert base.completion == sft.completion
    assert base.completion != other.completion


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
