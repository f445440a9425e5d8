"""What the trainer asks of a policy."""

import pytest
import torch
from conftest import build_llama

from stylerl.errors import ModelError
from stylerl.ppo.policy import Policy


def test_tied_weights_are_trained_as_one(tokenizer):
    policy = Policy(build_llama(len(tokenizer)))
    names = set(policy.state_dict()) - set(policy.trained())
    assert names == {"model.lm_head.weight"}


def test_the_policy_refuses_logits_that_are_not_linear(tokenizer):
    model = build_llama(len(tokenizer))
    forward = model.forward

    def capped(*args, **kwargs):
        out = forward(*args, **kwargs)
        out.logits = torch.tanh(out.logits)
        return out

    model.forward = capped
    with pytest.raises(ModelError, match="logits must be"):
        Policy(model)
