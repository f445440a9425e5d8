"""Log-probabilities of response tokens, against the plain way."""

import math

import pytest
import torch
from conftest import build_gpt2, build_llama

from stylerl.lm import logprobs
from stylerl.lm.logprobs import (
    response_mask,
    response_states,
    right_pad,
    token_scores,
)

PROMPTS = [[1, 40, 50], [1, 60, 61, 62, 63]]
RESPONSES = [[70, 71, 1], [80]]


class _Head(torch.nn.Module):
    """The part of a language model that `token_scores` looks at."""

    def __init__(self, weight, bias=None):
        super().__init__()
        self.linear = torch.nn.Linear(*weight.T.shape, bias=bias is not None)
        self.linear.weight = torch.nn.Parameter(weight)
        if bias is not None:
            self.linear.bias = torch.nn.Parameter(bias)

    def get_output_embeddings(self):
        return self.linear


def test_a_response_is_emitted_from_the_state_before_it():
    """Prompt of 3 and response of 3: states 2, 3, 4; of 5 and 1: state 4."""
    mask = response_mask(torch.tensor([3, 5]), torch.tensor([3, 1]), 6)
    assert mask.int().tolist() == [[0, 0, 1, 1, 1, 0], [0, 0, 0, 0, 1, 0]]


def test_two_logits_by_hand():
    """Logits 0 and ln 3 give p = 1/4 and 3/4; at temperature 2 the odds are
    sqrt(3) : 1.  H = ln 4 - 3/4 ln 3."""
    head = _Head(torch.tensor([[0.0], [math.log(3)]]))
    hidden = torch.ones(2, 1)
    scores = token_scores(head, hidden, torch.tensor([0, 1]), 1.0)
    assert scores.logprobs.tolist() == pytest.approx(
        [math.log(1 / 4), math.log(3 / 4)]
    )
    entropy = math.log(4) - 0.75 * math.log(3)
    assert scores.entropy.tolist() == pytest.approx([entropy, entropy])
    warm = token_scores(head, hidden[:1], torch.tensor([1]), 2.0)
    root = math.sqrt(3)
    assert warm.logprobs.item() == pytest.approx(math.log(root / (1 + root)))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [2, 5])
def test_its_gradient_is_the_numerical_one(rows, bias, monkeypatch):
    """Chunks of 2 rows (of 5), so that the seams are crossed; and of all,
    whose log-probabilities are kept."""
    monkeypatch.setattr(logprobs, "CHUNK", rows * 7)
    torch.manual_seed(0)
    kwargs = {"dtype": torch.double, "requires_grad": True}
    hidden = torch.randn(5, 3, **kwargs)
    weight = torch.randn(7, 3, **kwargs)
    extra = torch.randn(7, **kwargs) if bias else None
    tokens = torch.tensor([0, 6, 3, 3, 1])
    assert torch.autograd.gradcheck(
        lambda h, w, b: logprobs._Scores.apply(h, w, b, tokens, 0.7),
        (hidden, weight, extra),
    )


def test_padding_on_either_side_changes_nothing(tiny_lm):
    """Right-padded without a mask = left-padded with one = alone."""
    starts = torch.tensor([len(p) for p in PROMPTS])
    lengths = torch.tensor([len(r) for r in RESPONSES])
    rows = [p + r for p, r in zip(PROMPTS, RESPONSES, strict=True)]
    hidden, tokens = response_states(
        tiny_lm, right_pad(rows, 0), starts, lengths
    )
    assert tokens.tolist() == [70, 71, 1, 80]
    together = token_scores(tiny_lm, hidden, tokens, 0.8).logprobs
    alone = []
    for prompt, response in zip(PROMPTS, RESPONSES, strict=True):
        ids = torch.tensor([prompt + response])
        logp = torch.log_softmax(tiny_lm(ids).logits / 0.8, dim=-1)[0]
        alone += [
            logp[len(prompt) - 1 + at, token].item()
            for at, token in enumerate(response)
        ]
    assert together.tolist() == pytest.approx(alone, abs=1e-5)
    width = max(map(len, rows))
    left = torch.tensor([[0] * (width - len(r)) + r for r in rows])
    mask = torch.tensor([[0] * (width - len(r)) + [1] * len(r) for r in rows])
    positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
    logits = tiny_lm(left, attention_mask=mask, position_ids=positions).logits
    logp = torch.log_softmax(logits[:, :-1] / 0.8, dim=-1)
    padded = logp.gather(-1, left[:, 1:, None]).squeeze(-1)
    assert padded[0, -3:].tolist() == pytest.approx(alone[:3], abs=1e-5)
    assert padded[1, -1:].tolist() == pytest.approx(alone[3:], abs=1e-5)


@pytest.mark.parametrize("build", [build_llama, build_gpt2])
def test_the_gradient_of_a_model_is_autograds(build, tokenizer):
    ids = torch.tensor([[1, 40, 50, 60, 70]])
    starts, lengths = torch.tensor([2]), torch.tensor([3])
    gradients = []
    for ours in (True, False):
        lm = build(len(tokenizer))
        if ours:
            hidden, tokens = response_states(lm, ids, starts, lengths)
            scores = token_scores(lm, hidden, tokens, 1.0)
            loss = scores.logprobs.sum() + scores.entropy.sum()
        else:
            logp = torch.log_softmax(lm(ids).logits[:, 1:4], dim=-1)
            chosen = logp.gather(-1, ids[:, 2:, None])
            loss = chosen.sum() - (logp.exp() * logp).sum()
        loss.backward()
        gradients.append([p.grad for p in lm.parameters()])
    for mine, theirs in zip(*gradients, strict=True):
        assert torch.allclose(mine, theirs, atol=1e-5)


def test_bf16_autocast_multiplies_in_bf16_and_normalises_in_fp32():
    """In bf16 every product rounds to 8 bits: 1 + 2^-9 becomes 1, so the
    two logits tie and both log-probabilities are exactly -ln 2 in fp32."""
    head = _Head(torch.tensor([[1.0], [1.0 + 2**-9]]))
    with torch.autocast("cpu", torch.bfloat16):
        scores = token_scores(head, torch.ones(1, 1), torch.tensor([0]), 1.0)
    assert scores.logprobs.dtype == torch.float32
    assert scores.logprobs.item() == pytest.approx(-math.log(2), abs=1e-7)
