"""One optimiser step of TRL's trainers on our reward."""

import copy

import pytest
import torch
from conftest import build_llama
from test_other_trainers import FILE, IN_CLASS, PROMPT

from stylerl import config
from stylerl.config import Params
from stylerl.reward.other_trainers import TextReward

pytestmark = pytest.mark.slow


def lengths(prompts, completions):
    """Something that random completions differ in."""
    return [len(text) / 10 for text in completions]


PARTS = {"linter": 1.0, "test_trl_trainers:lengths": 1.0}


@pytest.mark.parametrize("method", ["GRPO", "RLOO"])
def test_a_trainer_takes_a_step(method, tokenizer, tmp_path):
    """The columns reach the reward, and its gradient the weights."""
    import trl
    from datasets import Dataset

    tokenizer = copy.deepcopy(tokenizer)
    reward = TextReward(config.override(Params(), {"ppo.reward": PARTS}))
    rows = {"prompt": PROMPT, "file_text": FILE, "line": IN_CLASS, "size": 7}
    arguments = getattr(trl, f"{method}Config")(
        output_dir=str(tmp_path),
        max_steps=1,
        logging_steps=1,
        per_device_train_batch_size=4,
        num_generations=4,
        max_completion_length=8,
        learning_rate=0.1,
        beta=0.0,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    tokenizer.chat_template = None
    model = build_llama(len(tokenizer))
    before = model.get_input_embeddings().weight.detach().clone()

    trainer = getattr(trl, f"{method}Trainer")(
        model,
        reward_funcs=reward,
        args=arguments,
        train_dataset=Dataset.from_list([rows] * 4),
        processing_class=tokenizer,
    )
    trainer.train()

    assert trainer.state.global_step == 1
    log = trainer.state.log_history[0]
    assert log["rewards/stylerl/std"] > 0
    after = trainer.model.get_input_embeddings().weight
    assert not torch.equal(before, after)
