"""The textbook exercise of PPO: a model that learns to sound happy.

    python examples/sentiment.py                 # a tiny model of its own
    python examples/sentiment.py --model gpt2    # from the hub, or a folder

A list of words is the reward, four prompts are the task.  Without `--model`
a word-level model is first trained from scratch on sentences that are
generated here, so that everything takes seconds and needs no network.  The
loop is the library's: `for step in trainer`, or with `--by-hand` the two
halves of a step, `trainer.rollout()` and `trainer.update(rollouts)`.
"""

import argparse
import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from stylerl.lm.batching import padded
from stylerl.lm.encoding import encode_prompt, load_tokenizer
from stylerl.lm.models import load_causal_lm
from stylerl.lm.sampling import generate
from stylerl.ppo import PPOConfig, PPOTrainer, by_reward

POSITIVE = {  # by weight
    "good": 1,
    "nice": 1,
    "calm": 1,
    "happy": 2,
    "sunny": 2,
    "great": 2,
    "love": 3,
    "wonderful": 3,
}
NEGATIVE = ["bad", "sad", "tired", "rainy", "terrible", "hate", "lonely"]
PLAIN = ["long", "quiet", "new", "short", "usual"]
PROMPTS = [
    "I feel happy when",
    "Today the weather is",
    "My friends think that",
    "This movie was",
]
ENDS = [
    "people are {a} and the day is {b}",
    "{a} and a bit {b} today",
    "all of us were {a} but never {b}",
    "so {a} that everything felt {b} and {c}",
]


class Outcome(NamedTuple):
    """The reward of one model's completions, and one of them by prompt."""

    mean: float
    samples: list[str]


def reward(prompts: Sequence[str], completions: Sequence[str]) -> list[float]:
    """Five times the positive words' weights less the negative words.

    At least 0.1: a reward that is never quite nothing.
    """
    scores = []
    for text in completions:
        words = text.lower().replace(".", " ").replace(",", " ").split()
        weight = sum(POSITIVE.get(word, 0) for word in words)
        negative = sum(word in NEGATIVE for word in words)
        scores.append(max(0.1, 5.0 * weight - negative))
    return scores


def sentences(count: int, seed: int) -> list[str]:
    """Prompts with endings of any mood, half of the words plain."""
    rng = random.Random(seed)
    words = [*POSITIVE, *NEGATIVE, *PLAIN * 3]

    def sentence() -> str:
        a, b, c = rng.choices(words, k=3)
        end = rng.choice(ENDS).format(a=a, b=b, c=c)
        return f"{rng.choice(PROMPTS)} {end} ."

    return [sentence() for _ in range(count)]


def tiny_model(
    seed: int = 0,
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A word-level Llama of two layers, trained on `sentences`."""
    texts = sentences(2048, seed)
    words = sorted({word for text in texts for word in text.split()})
    special = ["<pad>", "<eos>", "<unk>"]
    level = Tokenizer(
        models.WordLevel(
            {word: i for i, word in enumerate([*special, *words])},
            unk_token="<unk>",
        )
    )
    level.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=level,
        pad_token="<pad>",
        eos_token="<eos>",
        bos_token="<eos>",
        unk_token="<unk>",
    )
    torch.manual_seed(seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=64,
            tie_word_embeddings=True,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=1,
        )
    )
    rows = [[*encode_prompt(tokenizer, text), 1] for text in texts]
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    for start in range(0, len(rows), 32):
        ids, _ = padded(rows[start : start + 32], pad=0)
        labels = ids.masked_fill(ids == 0, -100)
        model(input_ids=ids, labels=labels).loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    return model.eval(), tokenizer


def measure(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, samples: int
) -> Outcome:
    """Sample every prompt so often, with the same draws for any model."""
    prompts = PROMPTS * samples
    answers = generate(model, tokenizer, prompts, max_new_tokens=16).texts
    scores = reward(prompts, answers)
    return Outcome(sum(scores) / len(scores), answers[: len(PROMPTS)])


def by_hand(trainer: PPOTrainer) -> Iterator[dict[str, float]]:
    """The same updates as `for step in trainer`, in their two halves."""
    for _ in range(len(trainer)):
        rollouts = trainer.rollout()
        yield trainer.update(rollouts)


def main(arguments: Sequence[str] | None = None) -> list[float]:
    """Train and print the table; the mean reward of every update."""
    options = _options(arguments)
    model: Any
    if options.model:
        tokenizer = load_tokenizer(options.model)
        model = load_causal_lm(options.model, tokenizer=tokenizer)
    else:
        model, tokenizer = tiny_model()
    before = measure(model, tokenizer, options.samples)
    trainer = PPOTrainer(
        PPOConfig(
            updates=options.updates,
            batch_size=64,
            max_new_tokens=16,
            temperature=1.0,
            learning_rate=options.learning_rate,
            kl_coef=2.0,
            lora_rank=0,  # of a model made in seconds, all weights
            checkpoint_every=0,
        ),
        policy=model,
        tokenizer=tokenizer,
        grader=by_reward(reward),
        prompts=PROMPTS,
    )
    means = []
    steps = by_hand(trainer) if options.by_hand else trainer
    for update, step in enumerate(steps, start=1):
        numbers = step if isinstance(step, dict) else step.metrics
        means.append(numbers["objective/score"])
        print(
            f"update {update:3d}: mean reward {means[-1]:6.2f}, "
            f"KL {numbers['objective/kl']:5.2f} nats"
        )
    after = measure(trainer.policy.model, tokenizer, options.samples)
    show(before, after)
    return means


def show(before: Outcome, after: Outcome) -> None:
    """Print both models' answers one below the other, and their rewards."""
    rows = zip(PROMPTS, before.samples, after.samples, strict=True)
    for prompt, old, new in rows:
        print(f"\n{prompt} ...")
        for label, text in (("before", old), ("after", new)):
            (score,) = reward([prompt], [text])
            print(f"  {label:6} {score:6.1f}  {' '.join(text.split())}")
    print(f"\n{'mean reward':12} before {before.mean:6.2f}", end="")
    print(f"   after {after.mean:6.2f}")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "")[:78])
    parser.add_argument("--model", help="hub name or folder; default: tiny")
    parser.add_argument("--updates", type=int, default=30)
    parser.add_argument("--samples", type=int, default=32, help="a prompt")
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--by-hand", action="store_true")
    options = parser.parse_args(arguments)
    if options.learning_rate is None:
        options.learning_rate = 1.41e-5 if options.model else 1e-3
    return options


if __name__ == "__main__":
    main()
