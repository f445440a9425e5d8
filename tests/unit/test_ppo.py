"""The trainer: what section 1 of the PPO notes says must hold."""

import copy
import dataclasses
import math

import bases
import pandas as pd
import pytest
import torch
from conftest import (
    build_gpt2,
    build_llama,
    build_tokenizer,
    build_trainer,
    grader,
    share_of,
)
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoModelForCausalLM

from stylerl.errors import ConfigError, ModelError, TrainingError
from stylerl.lm.encoding import encode_prompt, load_tokenizer
from stylerl.lm.logprobs import TokenScores
from stylerl.lm.models import fit_to_tokenizer
from stylerl.ppo import PPOConfig, PPOTrainer, formulas, learner
from stylerl.ppo.health import alarms
from stylerl.reward.functions import Feedback

PROMPTS = ["def add(a, b):\n", "x", 'def f():\n    """Go."""\n', "names = "]


def make(model=None, *, reward=None, tokenizer=None, prompts=None, **changes):
    """A trainer of 2 updates of 8 episodes of 8 tokens, in fp32."""
    judging = grader(
        reward or letters,
        changes.pop("monitor", None),
        whole_lines=changes.pop("whole_lines", False),
    )
    settings = {
        "updates": 2,
        "batch_size": 8,
        "num_minibatches": 2,
        "update_epochs": 2,
        "max_new_tokens": 8,
        "temperature": 0.9,
        "learning_rate": 1e-3,
        **changes,
    }
    prompts = PROMPTS if prompts is None else prompts
    return build_trainer(judging, prompts, model, tokenizer, **settings)


letters = share_of(str.islower)
# Of a text without a whole line it is 0: the policy has to end the line, or
# the text, within its tokens.
plain = share_of(str.isascii)


def ends_early(build, factor):
    """A model whose eos embedding is larger, so that some rows finish."""
    model = build(len(build_tokenizer()))
    with torch.no_grad():
        model.get_input_embeddings().weight[1] *= factor
    return model


def watched(trainer):
    """What each step of the optimiser is given from here on."""
    given, learn = [], trainer.learner.take_step

    def spy(*arguments):
        given.append(arguments)
        return learn(*arguments)

    trainer.learner.take_step = spy
    return given


def weights(trainer):
    return [p.detach().clone() for p in trainer.policy.parameters()]


# ---- Ratio, temperature, tokens, eos. ------------------------------------


@pytest.fixture
def ratios(monkeypatch):
    """Those of the tokens of each pass of an update, (N,) each."""
    seen, ratio_of = [], formulas.ratio_of

    def spy(*logprobs):
        seen.append(ratio_of(*logprobs).detach())
        return ratio_of(*logprobs)

    monkeypatch.setattr(formulas, "ratio_of", spy)
    return seen


def test_the_first_minibatch_has_ratio_one(tiny_lm, ratios):
    trainer = make(tiny_lm, update_epochs=1, num_minibatches=1, pass_tokens=40)
    numbers = trainer.update(trainer.rollout())
    assert len(ratios) > 1
    assert torch.cat(ratios).sub(1).abs().max() < 1e-5
    assert numbers["policy/ratio"] == pytest.approx(1.0, abs=1e-5)
    assert numbers["policy/approxkl"] == pytest.approx(0.0, abs=1e-5)
    assert numbers["policy/clipfrac"] == 0.0


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_without_a_learning_rate_the_ratio_stays_one(dropout, ratios):
    """For a whole run; with GPT-2's usual dropout too, which is off."""
    model = build_gpt2(len(build_tokenizer()))
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = dropout
    trainer = make(model, learning_rate=1e-30, updates=3)
    for step in trainer:
        assert step.metrics["objective/kl"] == pytest.approx(0, abs=1e-4)
    assert torch.cat(ratios).sub(1).abs().max() < 1e-5


def test_logprobs_are_those_of_the_sampling_temperature(tiny_lm, tokenizer):
    trainer = make(tiny_lm, temperature=0.6)
    batch = trainer.rollout()
    for row, ids in enumerate(batch.input_ids):
        start, length = batch.prompt_lengths[row], batch.response_lengths[row]
        logits = tiny_lm(torch.tensor([ids])).logits[0]
        log_all = torch.log_softmax(logits / 0.6, dim=-1)[start - 1 : -1]
        expected = [
            log_all[at, token].item() for at, token in enumerate(ids[start:])
        ]
        got = batch.logprobs[row, :length]
        assert got.tolist() == pytest.approx(expected, abs=1e-5)
        entropy = -(log_all.exp() * log_all).sum(dim=-1)
        assert batch.entropy[row, :length].tolist() == pytest.approx(
            entropy.tolist(), abs=1e-4
        )
        assert not batch.logprobs[row, length:].any()


def test_the_tokens_sampled_are_the_tokens_trained(tokenizer):
    """A random model's tokens are rarely those its text would encode to."""
    batch = make().rollout()
    retokenised = 0
    for row, text in enumerate(batch.completions):
        response = batch.input_ids[row][batch.prompt_lengths[row] :]
        kept = response[:-1] if batch.finished[row] else response
        assert tokenizer.decode(kept) == text
        retokenised += tokenizer.encode(text) != kept
    assert retokenised > 0


def test_eos_is_the_last_action_and_carries_the_score():
    """With beta 0 a token's reward is the score where the response ends, and
    0 anywhere else."""
    trainer = make(ends_early(build_llama, 3), kl_coef=0.0, batch_size=16)
    batch = trainer.rollout()
    rewards = trainer.learner.rewards(batch).tokens
    assert any(batch.finished)
    assert not all(batch.finished)
    for row, finished in enumerate(batch.finished):
        last = int(batch.response_lengths[row]) - 1
        token = batch.input_ids[row][int(batch.prompt_lengths[row]) + last]
        assert (token == 1) == finished
        charged = batch.scores[row] - (0.0 if finished else 1.0)
        assert rewards[row, last].item() == pytest.approx(charged.item())
        assert rewards[row].count_nonzero() <= 1


@pytest.mark.parametrize("whole_lines", [False, True])
def test_a_cut_completion_is_judged_as_sampled_or_in_whole_lines(whole_lines):
    """By the reward and by the monitor; it is charged in either case."""
    got, monitored = [], []

    def reward(prompts, completions):
        got.extend(completions)
        return [0.5] * len(completions)

    def monitor(prompts, completions, finished):
        monitored.extend(completions)
        return {}

    batch = make(
        ends_early(build_llama, 3),
        reward=reward,
        monitor=monitor,
        whole_lines=whole_lines,
    ).rollout()
    assert monitored == got and not all(batch.finished)
    for text, judged, finished in zip(
        batch.completions, got, batch.finished, strict=True
    ):
        whole = text[: text.rfind("\n") + 1]
        assert judged == (text if finished or not whole_lines else whole)
    assert batch.scores.tolist() == [0.5] * 8
    trainer = make(missing_eos_penalty=2.0, kl_coef=0.0)
    rewards = trainer.learner.rewards(batch).tokens.sum(dim=1)
    charged = [0.5 if finished else -1.5 for finished in batch.finished]
    assert rewards.tolist() == pytest.approx(charged)


# ---- Steps, weighting, gradients. ----------------------------------------


@pytest.mark.parametrize(
    ("batch_size", "size", "minibatches", "epochs"),
    [(8, 4, 2, 2), (8, 2, 3, 1), (9, 3, 5, 2)],
)
def test_minibatches_are_optimiser_steps(
    batch_size, size, minibatches, epochs
):
    """Groups stay together, where there is one for each step."""
    trainer = make(
        batch_size=batch_size,
        group_size=size,
        num_minibatches=minibatches,
        update_epochs=epochs,
        pass_tokens=1,
    )
    steps, given = [], watched(trainer)
    trainer.learner.optimiser.register_step_post_hook(
        lambda *_: steps.append(1)
    )
    numbers = trainer.update(trainer.rollout())
    seen = [rows.tolist() for _, _, rows in given]
    assert len(steps) == minibatches * epochs == numbers["policy/steps"]
    for epoch in range(epochs):
        part = seen[epoch * minibatches : (epoch + 1) * minibatches]
        assert sorted(sum(part, [])) == list(range(batch_size))
    assert epochs == 1 or seen[:minibatches] != seen[minibatches:]
    whole = [set(range(at, at + size)) for at in range(0, batch_size, size)]
    together = all(
        group <= {*rows} or group.isdisjoint(rows)
        for rows in seen
        for group in whole
    )
    assert together == (len(whole) >= minibatches)


def test_an_update_by_hand_of_fewer_episodes_than_minibatches():
    trainer = make(num_minibatches=8, update_epochs=1)
    assert trainer.update(trainer.rollout(["x"]))["policy/steps"] == 4


class Reads(TorchDispatchMode):
    """Counts how often a number is read from a tensor: a GPU is waited for."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        read = torch.ops.aten._local_scalar_dense.default
        self.count += function is read
        return function(*args, **(kwargs or {}))


def test_the_loss_of_a_pass_and_what_is_logged_of_it_read_no_number():
    """Ratio 1 and advantages of 1, 2 and 6: a loss of -9, and 3 tokens."""
    now = TokenScores(torch.zeros(3, requires_grad=True), torch.zeros(3))
    old = learner.RolloutTargets(torch.zeros(3), torch.tensor([1.0, 2, 6]))
    taught = make().learner
    with Reads() as reads:
        loss, logged = taught._loss(now, old)
    assert reads.count == 0
    assert loss.tolist() == [-1.0, -2.0, -6.0]
    assert logged.tolist() == [-9.0, 0.0, 0.0, 3.0]


@pytest.mark.parametrize("build", [build_llama, build_gpt2])
def test_micro_batches_change_no_update(build):
    """Every token weighs the same, however the episodes are cut.  The
    lengths differ, so that a mean of means would show."""
    results = []
    for pass_tokens in (0, 1, 40):
        trainer = make(
            ends_early(build, 3 if build is build_llama else -3),
            pass_tokens=pass_tokens,
        )
        batch = trainer.rollout()
        assert len(set(batch.response_lengths.tolist())) > 1
        numbers = trainer.update(batch)
        results.append((weights(trainer), numbers))
    for other, numbers in results[1:]:
        for a, b in zip(results[0][0], other, strict=True):
            assert torch.allclose(a, b, atol=1e-5)
        assert numbers == pytest.approx(results[0][1], abs=1e-4)


def test_the_gradient_is_clipped_and_its_norm_logged(monkeypatch):
    monkeypatch.setattr(learner, "MAX_GRAD_NORM", 1e-3)
    trainer = make(update_epochs=1, num_minibatches=1)
    norms = []

    def hook(*_):
        grads = [p.grad for p in trainer.policy.parameters()]
        norms.append(torch.stack([g.norm() for g in grads]).norm().item())

    trainer.learner.optimiser.register_step_pre_hook(hook)
    numbers = trainer.update(trainer.rollout())
    assert norms[0] == pytest.approx(1e-3, rel=1e-3)
    assert numbers["grad_norm"] > 1e-3


def test_the_reference_never_moves():
    trainer = make(learning_rate=0.01)
    before = [p.clone() for p in trainer.reference.parameters()]
    for step in trainer:
        last = step
    for a, b in zip(before, trainer.reference.parameters(), strict=True):
        assert torch.equal(a, b)
    assert last.metrics["objective/kl"] > 0.01


def test_a_gradient_that_is_not_finite_is_one_clear_error():
    trainer = make()
    batch = trainer.rollout()
    broken = dataclasses.replace(
        batch, logprobs=torch.full_like(batch.logprobs, torch.nan)
    )
    with pytest.raises(TrainingError, match="must be finite"):
        trainer.update(broken)


# ---- What it learns. ------------------------------------------------------


@pytest.mark.slow
def test_the_policy_reaches_a_known_optimum():
    """ASCII alone is worth 1: from an eighth to more than 0.95, with the
    trainer used as a library, and prompts that are rows."""
    trainer = make(
        reward=plain,
        updates=20,
        batch_size=64,
        update_epochs=4,
        max_new_tokens=4,
        learning_rate=1e-2,
        kl_coef=0.01,
        missing_eos_penalty=0.0,
        whole_lines=True,
        prompts=[{"prompt": text} for text in PROMPTS],
    )
    steps = list(trainer)
    scores = [step.metrics["objective/score"] for step in steps]
    assert scores[0] < 0.3
    assert scores[-1] > 0.95
    assert not any(step.alarms for step in steps)


@pytest.mark.slow
def test_the_policy_reaches_the_optimum_under_the_penalty():
    """One token, worth 1 if it is even, beta = 1/2: the optimum is
    pi*(a) = pi_ref(a) exp(2 s(a)) / Z, so that even tokens have
    p e^2 / (p e^2 + 1 - p), where pi_ref gives them p."""
    model = build_llama(len(build_tokenizer()))
    prompt = torch.tensor([encode_prompt(build_tokenizer(), "x")])

    def tokens():
        with torch.no_grad():
            return model(prompt).logits[0, -1].double().softmax(dim=-1)

    reference = tokens()
    optimum = reference.clone()
    optimum[::2] *= math.e**2
    optimum /= optimum.sum()
    trainer = make(
        model,
        reward=lambda prompts, texts: [0.0] * len(texts),
        prompts=["x"],
        updates=50,
        batch_size=256,
        pass_tokens=0,
        max_new_tokens=1,
        temperature=1.0,
        learning_rate=3e-3,
        kl_coef=0.5,
        missing_eos_penalty=0.0,
    )
    history = []
    for _ in range(len(trainer)):
        batch = trainer.rollout()
        worth = [float(row[-1] % 2 == 0) for row in batch.input_ids]
        parts = {"even": torch.tensor(worth)}
        batch = dataclasses.replace(batch, reward_parts=parts)
        history.append(trainer.update(batch))
        assert alarms(history) == []
    assert 0.4 < reference[::2].sum() < 0.6
    assert (optimum - reference)[::2].sum() > 0.3
    learned = tokens()
    assert float((learned - optimum)[::2].sum().abs()) < 0.02
    assert kl(reference, optimum) > 0.4
    assert kl(learned, optimum) < 0.02


def kl(pi, other):
    """KL(pi, other) in nats, of two distributions of one token."""
    return float((pi * (pi / other).log()).sum())


def test_a_step_knows_its_speed():
    (step,) = make(updates=1)
    seconds = {"generate": 1.0, "update": 3.0}
    timed = step._replace(seconds=seconds)
    tokens = int(step.rollouts.response_lengths.sum())
    assert timed.tokens_per_second == tokens / 4
    assert {"generate", "judge", "score", "update"} <= set(step.seconds)


def test_by_hand_the_steps_are_those_of_the_loop():
    looped = [step.metrics for step in make()]
    trainer = make()
    by_hand = [trainer.update(trainer.rollout()) for _ in range(len(trainer))]
    assert by_hand == looped
    assert make().rollout(["a", "b"]).prompts == ["a"] * 4 + ["b"] * 4


def final_kl(**changes):
    """Nats from pi_ref after twelve updates towards ASCII."""
    trainer = make(
        **{
            "reward": plain,
            "updates": 12,
            "batch_size": 64,
            "update_epochs": 4,
            "missing_eos_penalty": 0.0,
            "whole_lines": True,
            **changes,
        }
    )
    return [step.metrics["objective/kl"] for step in trainer][-1]


@pytest.mark.slow
def test_a_huge_beta_keeps_the_policy_at_the_reference():
    """What is left at beta = 100 and 10,000 is the noise of the gradient."""
    free = final_kl(kl_coef=0.0)
    assert free > 1.5
    assert final_kl(kl_coef=100.0) < 0.5 * free
    assert final_kl(kl_coef=1e4) < 0.5 * free


def test_the_scale_of_the_reward_changes_no_update():
    """Reward and beta a thousand times larger: the same weights."""

    def loud(prompts, completions):
        return [1000 * x for x in plain(prompts, completions)]

    results = []
    for reward, beta in ((plain, 0.1), (loud, 100.0)):
        trainer = make(
            reward=reward, kl_coef=beta, updates=3, missing_eos_penalty=0.0
        )
        list(trainer)  # to its end
        results.append(weights(trainer))
    for a, b in zip(*results, strict=True):
        assert torch.allclose(a, b, atol=1e-5)


def test_a_group_is_of_one_prompt_and_of_different_draws():
    batch = make(group_size=4).rollout()
    assert [len(set(batch.prompts[i : i + 4])) for i in (0, 4)] == [1, 1]
    assert batch.prompts[0] != batch.prompts[4]
    assert len({tuple(ids) for ids in batch.input_ids[:4]}) > 1


# ---- Score shaping, prompts, reward functions. ---------------------------


def test_prompts_come_in_turn_and_each_once_a_pass():
    trainer = make(
        prompts=[f"p{i}" for i in range(10)], batch_size=8, group_size=2
    )
    drawn = []
    for trainer.learner.done in range(5):
        drawn += trainer.rollout().prompts[::2]
    assert sorted(drawn[:10]) == sorted(drawn[10:]) == sorted(trainer.prompts)
    assert drawn[:10] != drawn[10:]


def test_named_parts_are_summed():
    def reward(prompts, completions):
        n = len(prompts)
        return {"style": [1.0] * n, "other": [0.25] * n}

    trainer = make(reward=reward)
    batch = trainer.rollout()
    assert batch.scores.tolist() == [1.25] * 8
    numbers = trainer.update(batch)
    assert numbers["score/style"] == 1.0
    assert numbers["score/other"] == 0.25
    assert numbers["objective/score"] == 1.25


def test_a_bad_reward_is_one_clear_error():
    with pytest.raises(TrainingError, match=r"reward gave \[1.0\] for 8"):
        make(reward=lambda prompts, completions: [1.0]).rollout()


def test_a_reward_may_change_its_lists_and_name_parts():
    def reward(prompts, completions):
        count = len(prompts)
        prompts.clear()
        completions.clear()
        return {"length": [1.0] * count}

    (step,) = make(reward=reward, updates=1)
    assert step.metrics["score/length"] == 1.0
    assert len(step.rollouts.prompts) == len(step.rollouts.completions) == 8


def frozen():
    return build_llama(320).requires_grad_(False)


def with_another_forward():
    model = build_llama(320)
    model.model.forward = torch.compile(model.model.forward)
    return model


@pytest.mark.parametrize(
    ("model", "changes", "message"),
    [
        (frozen, {}, "all of them are frozen"),
        (lambda: torch.compile(frozen()), {}, "got a OptimizedModule"),
        (lambda: torch.nn.Sequential(frozen()), {}, "Sequential: .* unwrap"),
        (with_another_forward, {}, "its class's forward; one of Llama"),
        (frozen, {"num_minibatches": 9}, "at most ppo.batch_size, 8; got 9"),
    ],
)
def test_a_policy_that_cannot_learn_is_one_clear_error(
    model, changes, message
):
    with pytest.raises(ConfigError, match=message):
        make(model(), **changes)


@pytest.mark.parametrize("part", ["model", "reference"])
@pytest.mark.parametrize("build", [build_llama, build_gpt2])
def test_weights_that_are_no_numbers_are_named(part, build):
    broken = build(320)
    with torch.no_grad():
        next(broken.parameters())[3] = torch.nan
    words = f"{type(broken).__name__} hold NaN or infinity, in "
    with pytest.raises(ModelError, match=words):
        make(**{part: broken})


@pytest.mark.parametrize("given", [[1.0] * 8, None, Feedback({})])
def test_a_grader_gives_a_feedback_with_a_reward(given):
    trainer = build_trainer(lambda p, c, f: given, PROMPTS, batch_size=8)
    with pytest.raises(TrainingError, match="must give a Feedback"):
        trainer.rollout()


def test_prompts_by_hand_are_texts_too():
    with pytest.raises(ConfigError, match="got one str"):
        make().rollout("abc")


@pytest.mark.parametrize(
    ("token", "other", "message"),
    [
        ("pad_token", "<|eos|>", "differ from eos"),
        ("eos_token", None, "must have an eos token"),
    ],
)
def test_a_tokenizer_needs_an_eos_that_is_not_pad(token, other, message):
    tokenizer = build_tokenizer()
    setattr(tokenizer, token, other)
    with pytest.raises(ConfigError, match=message):
        make(tokenizer=tokenizer)


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ("hello", "got one str: give a list"),
        (b"hello", "got one bytes: give a list"),
        ({"train": PROMPTS}, "got one dict: .* or one data set"),
        ([{"text": "x"}], r"row 0 is \['text'\]: give the text"),
        (["x", None], "row 1 is None"),
        ([["x"]], r"row 0 is \['x'\]"),
        (pd.DataFrame({"text": ["x"]}), r"row 0 is \['text'\]"),
        ([], "at least one prompt; got none"),
    ],
)
def test_prompts_that_are_no_texts_are_one_clear_error(prompts, message):
    with pytest.raises(ConfigError, match=message):
        make(prompts=prompts)


@pytest.mark.parametrize(
    "prompts",
    [
        iter(PROMPTS),
        [{"prompt": text} for text in PROMPTS],
        pd.DataFrame({"prompt": PROMPTS}),
        pd.Series(PROMPTS),
    ],
)
def test_prompts_come_in_any_form_that_has_texts(prompts):
    assert make(prompts=prompts).prompts == PROMPTS


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", bases.BASES)
def test_a_model_as_from_pretrained_gives_it_trains(name, dtype, tmp_path):
    """In half precision and in train mode.  Steps of 1e-5 would be lost in
    bf16, whose numbers near 1 are 0.004 apart, so the weights are fp32."""
    bases.BASES[name](tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=dtype)
    fit_to_tokenizer(model.train(), tokenizer)
    trainer = make(model, tokenizer=tokenizer, learning_rate=1e-5)
    before = weights(trainer)
    first, *_ = [step.metrics for step in trainer]
    assert first["objective/kl"] == pytest.approx(0, abs=1e-4)
    for old, new in zip(before, trainer.policy.parameters(), strict=True):
        assert new.dtype == torch.float32
        assert not torch.equal(old, new)


def test_a_reference_in_bf16_is_compared_in_fp32(tiny_lm, tokenizer):
    reference = copy.deepcopy(tiny_lm).bfloat16()
    trainer = make(tiny_lm.bfloat16(), reference=reference)
    numbers = trainer.update(trainer.rollout())
    assert numbers["objective/kl"] == pytest.approx(0, abs=1e-5)


def test_a_token_without_a_row_is_named_with_a_remedy_that_works():
    """A pad token was added, and the model was not told."""
    tokenizer = build_tokenizer()
    model, reference = build_llama(320), build_llama(320)
    tokenizer.add_special_tokens({"pad_token": "<|new|>"})
    for model_too in (False, True):
        with pytest.raises(ConfigError, match=r"321 \(pad is 320\).*320 rows"):
            make(model, tokenizer=tokenizer, reference=reference)
        if not model_too:
            fit_to_tokenizer(model, tokenizer)
    fit_to_tokenizer(reference, tokenizer)
    assert list(make(model, tokenizer=tokenizer, reference=reference))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grader": 1.0}, "grader must be a function.*got a float"),
        ({"grader": letters}, r"completions, finished\).*one for others"),
        ({"policy": build_llama(320).model}, "LlamaModel is none: load it"),
        ({"policy": build_llama(320).to("meta")}, "on the meta device"),
        ({"reference": build_llama(320).to("meta")}, "on the meta device"),
        ({"policy": "gpt2"}, "got a str: load a name by .*load_causal_lm"),
        ({"reference": "gpt2"}, "got a str: load a name by"),
    ],
)
def test_what_is_of_another_kind_is_named(changes, message):
    given = {
        "config": PPOConfig(),
        "policy": build_llama(320),
        "tokenizer": build_tokenizer(),
        "grader": grader(letters),
        "prompts": PROMPTS,
        **changes,
    }
    with pytest.raises(ConfigError, match=message):
        PPOTrainer(given.pop("config"), **given)


@pytest.mark.parametrize("rank", [0, 2])
def test_a_reference_that_learns_too_is_one_clear_error(tiny_lm, rank):
    """The policy itself, or one that shares its weights."""
    for other in (tiny_lm, copy.copy(tiny_lm)):
        with pytest.raises(ConfigError, match="must be a model of its own"):
            make(tiny_lm, reference=other, lora_rank=rank)


# ---- Alarms act. ----------------------------------------------------------


def sick_from(call, until=None):
    """A reward that is -20 from one call on, as often as the policy asks."""
    calls = []

    def reward(prompts, completions):
        calls.append(1)
        sick = len(calls) >= call and (until is None or len(calls) < until)
        return [
            -20.0 - sick if sick else float(len(text) % 3)
            for text in completions
        ]

    return reward


def test_an_alarm_warns_and_the_run_goes_on():
    steps = list(make(reward=sick_from(2), updates=3))
    assert [len(step.alarms) for step in steps] == [0, 1, 1]
    assert steps[1].alarms[0].name == "reward collapse"
