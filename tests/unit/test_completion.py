"""Completions side by side in the terminal, with verdicts."""

import io

import pytest
from rich.console import Console

from stylerl.cli.complete_command import (
    Answer,
    complete,
    growing,
    show,
)
from stylerl.config import JudgeConfig
from stylerl.errors import ModelError
from stylerl.judge import Judge
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


def options(**changes):
    return {"max_new_tokens": 8, "temperature": 1.0, "seed": 0} | changes


def test_the_same_model_and_seed_give_the_same_answer(llama_folder):
    judge = Judge(JudgeConfig())
    sources = {"base": str(llama_folder), "SFT": str(llama_folder)}

    base, sft = complete(PROMPT, sources, judge, options())
    other, _ = complete(PROMPT, sources, judge, options(seed=1))

    assert (base.label, sft.label) == ("base", "SFT")
    assert base.completion == sft.completion
    assert base.completion != other.completion


def test_a_prompt_is_utf_8_whatever_the_locale(llama_folder):
    """The locale C, of which an image may have no other, knows no letters
    beyond ASCII: their bytes stay what they are, as surrogates."""
    typed = PROMPT.replace("f(", "größe(").encode()
    (found,) = complete(
        typed.decode("ascii", "surrogateescape"),
        {"base": str(llama_folder)},
        Judge(JudgeConfig()),
        options(),
    )
    assert found.prompt == "def größe(a, b):"


def test_a_completion_is_told_as_it_grows(llama_folder):
    told = []
    (found,) = complete(
        PROMPT,
        {"base": str(llama_folder)},
        Judge(JudgeConfig()),
        options(),
        lambda label, text: told.append((label, text)),
    )
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


def test_a_prompts_line_end_is_left_to_the_completion(llama_folder):
    judge = Judge(JudgeConfig())

    (found,) = complete(
        "def add(a, b):", {"base": str(llama_folder)}, judge, options()
    )

    assert found.prompt == "def add(a, b):"


def test_models_not_made_yet_are_passed_over(llama_folder, tmp_path):
    judge = Judge(JudgeConfig())
    sources = {"base": str(llama_folder), "PPO": str(tmp_path / "ppo")}

    found = complete(PROMPT, sources, judge, options())

    assert [each.label for each in found] == ["base"]


def test_without_any_model_the_error_says_what_to_run(tmp_path):
    with pytest.raises(ModelError, match="stylerl run"):
        complete(
            PROMPT,
            {"base": str(tmp_path / "absent")},
            Judge(JudgeConfig()),
            options(),
        )


def test_a_wide_terminal_shows_the_answers_beside_each_other():
    answers = [answer("base"), answer("SFT"), answer("PPO")]

    wide, narrow = printed(answers, 160), printed(answers, 80)

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
