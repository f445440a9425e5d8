"""Our reward in a task of verifiers, where that package is installed."""

import asyncio

import pytest
from test_other_trainers import FILE, HONEST, IN_CLASS, LONG, ONCE, PROMPT

from stylerl.reward import verifiers_reward

vf = pytest.importorskip("verifiers.v1")

LINTER = {"linter": 1.0}
style = verifiers_reward(LINTER)  # what a configuration names


class Function(vf.TaskData):
    file_text: str | None = None
    line: int | None = None


class Continue(vf.Task[Function]):
    stylerl = vf.reward(style)


def score(task: vf.Task, reply: str | None, finish: str = "stop") -> vf.Trace:
    """A trace of one reply, scored as verifiers does."""
    trace = vf.Trace(
        task=vf.TraceTask(type="Continue", data=task.data),
        agent=vf.AgentInfo(config=vf.AgentConfig()),
    )
    if reply is not None:
        message = {"role": "assistant", "content": reply}
        trace.nodes.append(vf.MessageNode(message=message, sampled=True))
    if finish == "length":
        trace.stop("max_output_tokens")
    asyncio.run(task.score(trace))
    return trace


@pytest.mark.parametrize(
    ("reply", "worth"),
    [
        (HONEST, 1.0),
        (ONCE, 0.45),
        (f"```python\n{PROMPT}{ONCE}```", 0.45),
        ("No.", 0.0),
        (None, 0.0),
    ],
)
def test_a_reply_is_worth_what_its_code_is(reply, worth):
    trace = score(Continue(Function(prompt=PROMPT)), reply)
    assert trace.reward == pytest.approx(worth)
    assert trace.rewards.keys() == {"stylerl"}
    assert trace.metrics["stylerl/style"] == pytest.approx(worth)


def test_a_reply_is_judged_in_the_file_of_its_task():
    data = Function(prompt=PROMPT, file_text=FILE, line=IN_CLASS)
    assert score(Continue(data), LONG).reward == pytest.approx(0.45)


def test_a_reply_that_was_cut_pays_for_it():
    """1 for the whole rows, less ppo.missing_eos_penalty, 1."""
    cut = HONEST + "    retur"
    trace = score(Continue(Function(prompt=PROMPT)), cut, "length")
    assert trace.reward == pytest.approx(1.0 - 1.0)


def test_a_configuration_plugs_it_in():
    settings = vf.TaskConfig(
        rewards={"style": {"fn": "test_verifiers:style", "weight": 2.0}}
    )
    task = vf.Task(Function(prompt=PROMPT), settings)
    assert score(task, ONCE).reward == pytest.approx(2 * 0.45)
