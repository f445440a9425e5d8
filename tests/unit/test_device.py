"""PPO on whatever device there is: a GPU where this machine has one.

`make gpu` runs these where nothing else may be installed, so they import the
trainer alone.
"""

import copy

import pytest
import torch
from conftest import build_gpt2, build_llama, build_tokenizer, build_trainer

from stylerl.errors import ModelError
from stylerl.lm import steps
from stylerl.lm.replay import replay
from stylerl.lm.sampling import generate, response_logprobs
from stylerl.ppo import by_reward

pytestmark = pytest.mark.device
CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda" if CUDA else "cpu")
PROMPTS = ["def add(a, b):\n", "x", "def f():\n", "names = "]
# Sums on a GPU come in no fixed order: a resumed run is as close as two
# runs are, and no closer.
ATOL = 1e-5 if CUDA else 0.0


@pytest.fixture(autouse=True)
def _products_in_fp32():
    """On a GPU, PPO in bf16 lets the whole process multiply in TF32."""
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


def trainer(model=None, checkpoints=None, **changes):
    """Four updates of 8 episodes of 12 tokens."""
    settings = {
        "updates": 4,
        "batch_size": 8,
        "num_minibatches": 2,
        "update_epochs": 2,
        "max_new_tokens": 12,
        "learning_rate": 1e-3,
        "checkpoints": checkpoints,
        "checkpoint_every": 1 if checkpoints else 0,
        **changes,
    }
    judging = by_reward(lambda _, texts: [t.count("e") / 12 for t in texts])
    return build_trainer(judging, PROMPTS, model, **settings)


def weights(ppo):
    return [p.detach().cpu().clone() for p in ppo.policy.parameters()]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("build", [build_llama, build_gpt2])
def test_it_learns_on_the_device_and_starts_from_ratio_one(build, precision):
    once = {"num_minibatches": 1, "update_epochs": 1}
    ppo = trainer(build(320), precision=precision, **once)
    assert ppo.policy.model.device.type == DEVICE.type
    before = weights(ppo)
    first, *_ = ppo
    assert first.metrics["policy/ratio"] == pytest.approx(1, abs=1e-4)
    assert first.metrics["objective/kl"] == pytest.approx(0, abs=1e-3)
    for old, new in zip(before, weights(ppo), strict=True):
        assert torch.isfinite(new).all() and new.dtype == torch.float32
        assert not torch.equal(old, new)


def test_log_probabilities_on_the_device_are_those_of_the_definition():
    """log softmax(logits / temperature) of the whole text, in float64."""
    tokenizer = build_tokenizer()
    model = build_llama(len(tokenizer))
    definition = copy.deepcopy(model).double()
    model.to(DEVICE)
    got = generate(
        model, tokenizer, PROMPTS, max_new_tokens=12, temperature=0.7
    )
    found = response_logprobs(model, got.prompt_ids, got.ids, temperature=0.7)
    for prompt, ids, ours in zip(got.prompt_ids, got.ids, found, strict=True):
        logits = definition(torch.tensor([prompt + ids])).logits[0] / 0.7
        every = torch.log_softmax(logits[len(prompt) - 1 : -1], dim=-1)
        theirs = every[torch.arange(len(ids)), torch.tensor(ids)]
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("temperature", [1.0, 0.0])
@pytest.mark.parametrize("build", [build_llama, build_gpt2])
def test_a_replayed_step_draws_what_the_definition_does(build, temperature):
    """One row, no padding, no cache; a larger eos embedding ends some."""
    tokenizer = build_tokenizer()
    model = build(len(tokenizer))
    with torch.no_grad():
        model.get_input_embeddings().weight[1] *= 3
    model.to(DEVICE)
    # A group shares its prompt, which is computed once.
    texts = [PROMPTS[1], *PROMPTS, PROMPTS[0]]
    prompts = [tokenizer(text)["input_ids"] for text in texts]
    noise = steps.draw_uniforms(3, range(6), 40).to(DEVICE)
    with torch.inference_mode():
        start = steps.read_prompts(model, prompts, 0)
        heat = torch.full((6,), temperature, device=DEVICE)
        drawn = replay(model, start, noise, heat, 1)
        for prompt, response, uniforms in zip(
            prompts, drawn, noise, strict=True
        ):
            ids = list(prompt)
            for u in uniforms:
                seen = torch.tensor([ids], device=DEVICE)
                logits = model(seen).logits[:, -1]
                token = steps.choose_tokens(logits, u[None], heat[:1])
                ids.append(int(token))
                if ids[-1] == 1:
                    break
            assert response == ids[len(prompt) :]


def test_a_resumed_run_ends_as_a_whole_one(tmp_path):
    whole = trainer(checkpoints=tmp_path / "whole")
    list(whole)  # to its end
    for step in trainer(checkpoints=tmp_path / "cut"):
        if step.update == 2:
            break
    resumed = trainer(checkpoints=tmp_path / "cut")
    updates = [step.update for step in resumed]
    assert updates in ([2, 3, 4], [3, 4])
    for one, other in zip(weights(whole), weights(resumed), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=ATOL)


def test_adapters_learn_and_the_weights_below_them_stay():
    ppo = trainer(lora_rank=4)
    named = dict(ppo.policy.named_parameters())
    before = {n: p.detach().cpu().clone() for n, p in named.items()}
    first, *_ = ppo
    assert first.metrics["objective/kl"] == pytest.approx(0, abs=1e-3)
    moved = {
        name
        for name, old in before.items()
        if not torch.equal(old, named[name].detach().cpu())
    }
    assert any("lora_a" in name for name in moved)
    # Beside what is trained, the weights that are formed of it.
    assert all("lora_" in n or n.endswith("_proj.weight") for n in moved)


@pytest.mark.parametrize(("noise", "refused"), [(1e-5, False), (1e-2, True)])
def test_logits_are_compared_on_their_own_scale(noise, refused):
    """SmolLM2's reach 34, and on an H100 in fp32 those of a packed pass are
    off by 4e-4: more than a ten-thousandth of the small ones among them."""
    torch.set_float32_matmul_precision("high")  # as PPO in bf16 leaves it
    torch.manual_seed(0)
    model = build_llama(len(build_tokenizer()))
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(1000)
    model.base_model.norm.register_forward_hook(
        lambda _, __, states: states + noise * torch.randn_like(states)
    )
    if refused:
        with pytest.raises(ModelError, match="computes others"):
            trainer(model)
    else:
        trainer(model)
