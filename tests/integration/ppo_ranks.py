"""A tiny PPO run for tests/test_processes.py: `python ppo_ranks.py FOLDER`.

It is left after two updates and taken up again by a second trainer.  Every
process writes the weights it ended with.
"""

import sys
from pathlib import Path

import torch
from conftest import build_llama, build_tokenizer, build_trainer, share_of
from safetensors.torch import save_file

from stylerl.ppo import by_reward

SETTINGS = {
    "updates": 3,
    "batch_size": 9,
    "group_size": 3,
    "num_minibatches": 5,
    "update_epochs": 2,
    "max_new_tokens": 8,
    "learning_rate": 1e-3,
    "checkpoint_every": 1,
    "keep_length": True,
}


def make(folder):
    model = build_llama(len(build_tokenizer()))
    with torch.no_grad():
        model.get_input_embeddings().weight[1] *= 3
    return build_trainer(
        by_reward(share_of(str.isascii)),
        ["def add(a, b):\n", "x", "def f():\n"],
        model,
        checkpoints=folder / "checkpoints",
        **SETTINGS,
    )


def main():
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    trainer = make(folder)
    start = trainer.policy.trained()
    if trainer.ranks.is_main:
        save_file(start, folder / "start.safetensors")
    for step in trainer:
        if step.update == 2:
            break
    trainer = make(folder)
    for _ in trainer:
        pass
    index = trainer.ranks.rank
    weights = trainer.policy.trained()
    save_file(weights, folder / f"weights{index}.safetensors")
    trainer.save_policy(folder / "model")
    if trainer.ranks.is_main:
        numbers = [v for row in trainer.history for v in row.values()]
        (folder / "history.txt").write_text(" ".join(map(str, numbers)))


if __name__ == "__main__":
    main()
