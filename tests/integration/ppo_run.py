"""A tiny PPO run for tests/test_resume.py, in a process of its own.

It says which phase it is in and waits for leave to go on, so that a test
can kill it there, and writes what it ended with.
"""

import json
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from conftest import build_llama, build_tokenizer
from safetensors.torch import save_file

from stylerl.lm import checkpoint
from stylerl.ppo import PPOConfig, PPOTrainer, by_reward, compute

CONFIG = PPOConfig(
    updates=24,
    batch_size=6,
    group_size=2,
    num_minibatches=2,
    update_epochs=2,
    max_new_tokens=8,
    precision="fp32",
    learning_rate=1e-3,
    keep_length=True,
    checkpoint_every=2,
)


def run(folder, phases: Connection):
    """Train to the end, saying each phase at its beginning and end."""
    torch.set_num_threads(1)
    folder = Path(folder)

    def say(phase):
        phases.send(phase)
        phases.recv()

    def spy(owner, name, phase):
        original = getattr(owner, name)

        def call(*args, **kwargs):
            say(phase)
            result = original(*args, **kwargs)
            say(phase)
            return result

        setattr(owner, name, call)

    tokenizer = build_tokenizer()

    def reward(prompts, completions):
        """Depends on torch's global generator, as a reward may."""
        say("judge")
        noise = torch.rand(len(completions)).tolist()
        return [
            len(set(text)) / 10 + each
            for text, each in zip(completions, noise, strict=True)
        ]

    torch.manual_seed(0)
    model = build_llama(len(tokenizer))
    with torch.no_grad():
        model.get_input_embeddings().weight[1] *= 3  # so that some end
    trainer = PPOTrainer(
        CONFIG,
        policy=model,
        tokenizer=tokenizer,
        grader=by_reward(reward),
        prompts=["def add(a, b):\n", "x", "def f():\n"],
        checkpoints=folder / "checkpoints",
    )
    spy(trainer, "rollout", "rollout")
    spy(compute, "response_scores", "score")
    spy(trainer.learner, "take_step", "learn")
    spy(checkpoint, "save", "save")
    spy(checkpoint, "save_file", "save")
    samples = None
    for step in trainer:
        samples = step.rollouts.input_ids
    save_file(trainer.policy.trained(), folder / "weights.safetensors")
    (folder / "end.json").write_text(
        json.dumps([trainer.history, samples, trainer.learner.state()])
    )
    phases.close()
