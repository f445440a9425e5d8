"""Metrics of rollouts: masked, and averaged over what was filled."""

import pytest
import torch

from stylerl.ppo.compute import Compute
from stylerl.ppo.rollouts import (
    Rollouts,
    interleave,
    metrics_of,
)


def make(**changes):
    """Two episodes, of three tokens and of one."""
    values = {
        "prompts": ["a", "b"],
        "completions": ["x = 1 + 2", "y"],
        "judged": ["x = 1 + 2", ""],
        "finished": [True, False],
        "input_ids": [[1, 5, 6, 7, 8], [1, 9]],
        "prompt_lengths": torch.tensor([2, 1]),
        "response_lengths": torch.tensor([3, 1]),
        "reward_parts": {
            "style": torch.tensor([1.0, 0.0]),
            "other": torch.tensor([0.5, 0.25]),
        },
        "monitored": {"score": torch.tensor([0.8, 0.4])},
        "token_rewards": torch.zeros(2, 3),
        "logprobs": torch.tensor([[-1.0, -2.0, -3.0], [-4.0, 0.0, 0.0]]),
        "ref_logprobs": torch.tensor([[-2.0, -2.0, -5.0], [-3.0, 0.0, 0.0]]),
        "entropy": torch.tensor([[1.0, 2.0, 3.0], [6.0, 0.0, 0.0]]),
    }
    return Rollouts(**{**values, **changes})


def test_statistics_by_hand():
    """KL per response 1 + 0 + 2 = 3 and -1: mean 1.  Entropy over four
    tokens, not six: (1 + 2 + 3 + 6) / 4 = 3.  Scores 1.5 and 0.25."""
    found = metrics_of(make(), beta=0.1)
    assert found["objective/kl"] == pytest.approx(1.0)
    assert found["objective/entropy"] == pytest.approx(3.0)
    assert found["objective/score"] == pytest.approx(0.875)
    assert found["objective/score_std"] == pytest.approx(0.625)
    assert found["objective/rlhf_reward"] == pytest.approx(0.775)
    assert found["response/length"] == pytest.approx(2.0)
    assert found["response/eos_rate"] == 0.5
    assert found["score/style"] == 0.5
    assert found["score/other"] == pytest.approx(0.375)
    assert found["judge/score"] == pytest.approx(0.6)
    assert found["judge/gap"] == pytest.approx(0.5 - 0.6)


def test_diversity_by_hand():
    """`x = 1 + 2` has three 3-grams, all different; `y` has none."""
    found = metrics_of(make(), 0.0)
    assert found["response/unique"] == 1.0
    assert found["response/distinct_3"] == 1.0
    same = metrics_of(make(completions=["x = 1", "x = 1"]), 0.0)
    assert same["response/unique"] == 0.5
    assert same["response/distinct_3"] == 0.5


def test_a_reward_without_style_has_no_gap():
    parts = {"styles:reward": torch.ones(2)}  # a function of the user's
    plain = metrics_of(make(reward_parts=parts), 0.0)
    assert "judge/gap" not in plain


def test_a_pass_takes_rows_until_it_is_full_the_longest_first():
    """Prompts of 2 and 1 tokens, and responses of 2, 8, 4, 6 and 3.  The
    second prompt has rows 1 and 3, of which each fills a pass of 9 tokens;
    the first has 2 + 4 + 3, and row 0 is too much."""
    rows = [[1, 9, *[5] * 2], [7, *[5] * 8], [1, 9, *[5] * 4]]
    rows += [[7, *[5] * 6], [1, 9, *[5] * 3]]
    batch = make(
        input_ids=rows,
        prompt_lengths=torch.tensor([2, 1, 2, 1, 2]),
        response_lengths=torch.tensor([2, 8, 4, 6, 3]),
    )
    cpu, every = torch.device("cpu"), torch.arange(5)
    compute = Compute(False, False, 9, 1.0, cpu)
    cuts = list(compute.packs(batch, every))
    assert [part.tolist() for part, _ in cuts] == [[1], [3], [2, 4], [0]]
    # A response's last token is not read: 1 + 7, 1 + 5, 2 + 3 + 2, 2 + 1.
    assert [each.input_ids.shape[1] for _, each in cuts] == [8, 6, 7, 3]
    assert [len(each.tokens) for _, each in cuts] == [8, 6, 7, 2]
    whole = Compute(False, False, 0, 1.0, cpu)
    (((part, one),)) = whole.packs(batch, every)
    assert part.tolist() == [1, 3, 2, 4, 0]
    assert one.layout.responses.shape[1] == 3
    assert list(whole.packs(batch, torch.arange(0))) == []


def share(rows, index):
    """What process `index` of two has of a batch, cut to its width."""
    kept = range(index, len(rows.input_ids), 2)
    width = int(rows.response_lengths[list(kept)].max())

    def cut(value):
        if isinstance(value, dict):
            return {key: cut(each) for key, each in value.items()}
        if isinstance(value, list):
            return [value[i] for i in kept]
        part = value[list(kept)]
        return part[:, :width] if part.dim() == 2 else part

    fields = {k: v for k, v in vars(rows).items() if k != "seconds"}
    return Rollouts(**{name: cut(value) for name, value in fields.items()})


def test_shares_of_ranks_make_the_batch_again():
    """Rows 0, 2, 4 and 1, 3, of different widths."""
    lengths = torch.tensor([2, 5, 1, 4, 3])
    mask = torch.arange(5) < lengths[:, None]
    batch = make(
        prompts=list("abcde"),
        completions=list("vwxyz"),
        judged=list("vwxyz"),
        finished=[True, False, True, False, True],
        input_ids=[[1, i] for i in range(5)],
        prompt_lengths=torch.arange(5),
        response_lengths=lengths,
        reward_parts={"style": torch.arange(5.0)},
        monitored={"score": torch.arange(5.0) / 5},
        **{
            name: torch.rand(5, 5) * mask
            for name in (
                "token_rewards",
                "logprobs",
                "ref_logprobs",
                "entropy",
            )
        },
    )
    again = interleave([share(batch, 0), share(batch, 1)])
    for name, value in vars(batch).items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(getattr(again, name), value), name
        elif name != "seconds":
            assert str(getattr(again, name)) == str(value), name
    assert interleave([batch]) is batch
