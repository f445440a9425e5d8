"""Every formula of PPO by hand, on three tokens or fewer."""

import math

import pytest
import torch

from stylerl.ppo.formulas import (
    deviation,
    discounted_sums,
    group_advantages,
    kl_k1,
    kl_k3,
    learning_rate_share,
    penalised_rewards,
    policy_loss,
    ratio_of,
    returns_to_go,
)

# One response of three tokens, and one of two beside it.
MASK = torch.tensor([[True, True, True], [True, True, False]])
LENGTHS = torch.tensor([3, 2])


def test_kl_estimators():
    """pi = 1/2, pi_ref = 1/4: k1 = ln 2; x = 1/2: k3 = 1/2 - 1 + ln 2."""
    logprobs, reference = torch.tensor([0.5, 0.25]).log()
    assert kl_k1(logprobs, reference).item() == pytest.approx(math.log(2))
    expected = 0.5 - 1 + math.log(2)
    assert kl_k3(logprobs, reference).item() == pytest.approx(expected)


def test_both_estimators_are_unbiased():
    """p = (1/2, 1/2), q = (1/4, 3/4): KL(p, q) = ln 2 - ln(3) / 2."""
    p, q = torch.tensor([0.5, 0.5]), torch.tensor([0.25, 0.75])
    exact = math.log(2) - math.log(3) / 2
    for estimator in (kl_k1, kl_k3):
        mean = (p * estimator(p.log(), q.log())).sum()
        assert mean.item() == pytest.approx(exact)


def test_the_score_stands_on_the_last_action():
    """beta 0.1; row 0: -0.1 * (1, 2, 3) with 5 on token 2; row 1: its last
    token is 1, and nothing stands on the pad behind it."""
    kl = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 0.0]])
    none = torch.zeros(2, 3)
    rewards = penalised_rewards(
        torch.tensor([5.0, 6.0]), none, kl, LENGTHS, 0.1
    )
    expected = [[-0.1, -0.2, 4.7], [-0.4, 5.5, 0.0]]
    assert rewards.tolist() == [pytest.approx(row) for row in expected]


def test_token_rewards_are_placed_and_the_rest_on_the_last():
    """Scores 5 and 6; -1 on token 0, -2 on the last; -3 on token 0.  Left
    are 8 and 9: the last of row 0 has -2 + 8.  The sums are the scores."""
    placed = torch.tensor([[-1.0, 0.0, -2.0], [-3.0, 0.0, 0.0]])
    scores, no_kl = torch.tensor([5.0, 6.0]), torch.zeros(2, 3)
    rewards = penalised_rewards(scores, placed, no_kl, LENGTHS, 0.1)
    assert rewards.tolist() == [[-1, 0, 6], [-3, 9, 0]]
    assert torch.equal(rewards.sum(dim=1), scores)


def test_discounted_sums():
    """gamma 1/2: 4, then 2 + 2 = 4, then 1 + 2 = 3."""
    sums = discounted_sums(torch.tensor([[1.0, 2.0, 4.0]]), 0.5)
    assert sums.tolist() == [[3.0, 4.0, 4.0]]


@pytest.mark.parametrize(
    ("decay", "expected"),
    [
        # Tokens were charged (-1, 0, -4) and (0, -3); the rest of the
        # rewards is (0, -1, 2) and (0, 1).
        (1.0, [[-4, -3, -2], [-2, -2, 0]]),
        # A quarter of a charge reaches the token before it: -1 - 4 / 16,
        # -4 / 4, -4 and -3 / 4, -3; of the rest everything: 1, 1, 2; 1, 1.
        (0.25, [[-0.25, 0, -2], [0.25, -2, 0]]),
        (0.0, [[0, 1, -2], [1, -2, 0]]),
    ],
)
def test_returns_to_go(decay, expected):
    located = torch.tensor([[-1.0, 0.0, -4.0], [0.0, -3.0, 0.0]])
    rest = torch.tensor([[0.0, -1.0, 2.0], [0.0, 1.0, 0.0]])
    found = returns_to_go(rest + located, located, MASK, decay)
    assert found.tolist() == expected


def test_group_advantages():
    """From t on the siblings get (1, 2, 2) and (-2, -2, and after its end
    its outcome, 1): the first is ahead by (3, 4, 1), the second behind by
    (3, 4)."""
    returns = torch.tensor([[1.0, 2.0, 2.0], [-2.0, -2.0, 0.0]])
    outcomes = torch.tensor([2.0, 1.0])
    found = group_advantages(returns, outcomes, MASK, 2)
    assert found.tolist() == [[3.0, 4.0, 1.0], [-3.0, -4.0, 0.0]]


def test_groups_of_three_know_only_their_own():
    """One token each, worth 1, 2, 6 and 5, 5, 5: the first is behind the
    mean of 2 and 6 by 3, the second behind 3.5 by 1.5, the third ahead of
    1.5 by 4.5; in the other group nobody is ahead."""
    outcomes = torch.tensor([1.0, 2, 6, 5, 5, 5])
    mask = torch.ones(6, 1, dtype=torch.bool)
    found = group_advantages(outcomes[:, None], outcomes, mask, 3)
    assert found[:, 0].tolist() == [-3.0, -1.5, 4.5, 0.0, 0.0, 0.0]


def test_leave_one_out_leaves_the_gradient_as_it_is():
    """Two binary actions, with a charge on the first and an outcome; the
    first action 1 ends the episode.  The mean over all pairs of siblings of
    sum_t grad log pi(a_t) A_t is the gradient of the mean return."""
    logits = torch.tensor([[0.2, -0.3], [0.7, 0.1]], requires_grad=True)
    ours = torch.log_softmax(logits, dim=1)
    episodes = [  # actions, charge of the first, outcome
        ((0, 0), -0.5, 1.0),
        ((0, 1), -0.5, 3.0),
        ((1,), 0.25, 2.0),
    ]
    logprobs = [
        torch.stack([ours[t, a] for t, a in enumerate(actions)])
        for actions, _, _ in episodes
    ]
    shares = torch.stack([each.sum().exp() for each in logprobs])
    worth = torch.tensor([c + o for _, c, o in episodes])
    (expected,) = torch.autograd.grad(
        (shares * worth).sum(), logits, retain_graph=True
    )
    surrogate = torch.zeros(())
    for i, (_, c, o) in enumerate(episodes):
        for j, (_, other_c, other_o) in enumerate(episodes):
            rows = [
                (len(logprobs[i]), c, o),
                (len(logprobs[j]), other_c, other_o),
            ]
            mask = torch.tensor([[True, n == 2] for n, _, _ in rows])
            rewards = torch.zeros(2, 2)
            for row, (n, charge, outcome) in enumerate(rows):
                rewards[row, 0] += charge
                rewards[row, n - 1] += outcome
            outcomes = torch.tensor([outcome for _, _, outcome in rows])
            returns = discounted_sums(rewards, 1.0) * mask
            ahead = group_advantages(returns, outcomes, mask, 2)[0]
            chance = (shares[i] * shares[j]).detach()
            own = logprobs[i] * ahead[: len(logprobs[i])]
            surrogate = surrogate + chance * own.sum()
    (found,) = torch.autograd.grad(surrogate, logits)
    torch.testing.assert_close(found, expected)


def test_deviation_counts_tokens_and_no_padding():
    """Of 1, 2, 3, 4, 5: the root of 10 / 4; of equal ones not 0."""
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 99.0]])
    assert deviation(x, MASK).item() == pytest.approx(math.sqrt(2.5))
    assert deviation(torch.ones(2, 3), MASK).item() == pytest.approx(1e-4)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "clipped", "gradient"),
    [
        # -min(rA, clip(r)A), and d/dr: -A where not clipped
        (1.0, 2.0, -2.0, False, -2.0),
        (1.1, 2.0, -2.2, False, -2.0),
        (1.5, 2.0, -2.4, True, 0.0),  # A > 0: clipped above 1.2
        (0.5, 2.0, -1.0, False, -2.0),  # but never below
        (0.5, -2.0, 1.6, True, 0.0),  # A < 0: clipped below 0.8
        (1.5, -2.0, 3.0, False, 2.0),  # but never above
        (5.0, -2.0, 10.0, False, 2.0),
        (1.0, 0.0, 0.0, False, 0.0),
    ],
)
def test_clipped_surrogate(ratio, advantage, loss, clipped, gradient):
    r = torch.tensor([ratio], requires_grad=True)
    got, active = policy_loss(r, torch.tensor([advantage]), 0.2)
    got.sum().backward()
    assert got.item() == pytest.approx(loss)
    assert active.item() is clipped
    assert r.grad.item() == pytest.approx(gradient)


@pytest.mark.parametrize("advantage", [2.0, -2.0])
def test_the_gradient_is_zero_exactly_where_theory_says(advantage):
    """Of the objective in log pi: r A, and 0 where the action has moved
    beyond 0.2 in the direction that its advantage asks for: r > 1.2 with
    A > 0, r < 0.8 with A < 0, and nowhere else."""
    ratios = torch.tensor([0.1, 0.5, 0.79, 0.81, 1.0, 1.19, 1.21, 2.0, 9.0])
    logprobs = ratios.log().requires_grad_()
    loss, _ = policy_loss(
        ratio_of(logprobs, torch.zeros(9)), torch.full((9,), advantage), 0.2
    )
    (-loss).sum().backward()
    frozen = ratios > 1.2 if advantage > 0 else ratios < 0.8
    assert frozen.sum() == 3
    assert torch.equal(logprobs.grad == 0, frozen)
    free = logprobs.grad[~frozen]
    assert torch.allclose(free, advantage * ratios[~frozen])


def test_a_ratio_stays_finite():
    """e^20, not e^500, and 1 where nothing changed."""
    ratio = ratio_of(torch.tensor([500.0, -500.0, 1.0]), torch.zeros(3))
    expected = [math.exp(20), math.exp(-20), math.e]
    assert ratio.tolist() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("updates", "shares"),
    [
        # a twentieth of 40 warms up: 1/3, 2/3, then from 1 down over 38
        (40, [1 / 3, 2 / 3, 1, 37 / 38, 36 / 38]),
        # of 5 one: 1/2, then from 1 down over 4
        (5, [1 / 2, 1, 3 / 4, 2 / 4, 1 / 4]),
        (1, [1 / 2]),
    ],
)
def test_the_learning_rate_rises_and_falls(updates, shares):
    got = [learning_rate_share(updates, k) for k in range(len(shares))]
    assert got == pytest.approx(shares)
