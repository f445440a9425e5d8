"""Log-probabilities of response tokens, against the plain way."""

import math

import pytest
import torch

from stylerl.lm import logprobs
from stylerl.lm.logprobs import token_scores


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
        lambda h, w, b: logprobs._Scores.apply(h, w, b, tokens, 0.7)[0],
        (hidden, weight, extra),
    )


def test_bf16_autocast_multiplies_in_bf16_and_normalises_in_fp32():
    """In bf16 every product rounds to 8 bits: 1 + 2^-9 becomes 1, so the
    two logits tie and both log-probabilities are exactly -ln 2 in fp32."""
    head = _Head(torch.tensor([[1.0], [1.0 + 2**-9]]))
    with torch.autocast("cpu", torch.bfloat16):
        scores = token_scores(head, torch.ones(1, 1), torch.tensor([0]), 1.0)
    assert scores.logprobs.dtype == torch.float32
    assert scores.logprobs.item() == pytest.approx(-math.log(2), abs=1e-7)
    # Odds of e^z : 1, z = ln 3 in bf16: H = ln(1 + e^z) - z e^z / (1 + e^z).
    head = _Head(torch.tensor([[0.0], [math.log(3)]]))
    with torch.autocast("cpu", torch.bfloat16):
        scores = token_scores(head, torch.ones(1, 1), torch.tensor([0]), 1.0)
    z = float(torch.tensor(math.log(3)).bfloat16())
    entropy = math.log1p(math.exp(z)) - z / (1 + math.exp(-z))
    assert scores.entropy.item() == pytest.approx(entropy, abs=1e-6)
