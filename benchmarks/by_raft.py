"""RAFT: SFT on the best of a model's own samples, again and again.

Dong et al., arXiv 2304.06767; as a baseline of RL, arXiv 2504.11343.  With as
many optimiser steps as PPO, at PPO's rate, and no KL penalty: it asks what
choosing is worth without a policy gradient.
"""

from collections.abc import Sequence

import torch
from sequence_reward import GENERATIONS, longer_than_siblings, total_rewards
from transformers import get_linear_schedule_with_warmup

from stylerl import draws
from stylerl.evaluation.measurement.generations import LoadedModel
from stylerl.lm.sampling import Completions, generate
from stylerl.ppo import PPOTrainer, formulas
from stylerl.ppo.learner import ADAM_EPS, MAX_GRAD_NORM
from stylerl.supervised.sft import body_logprobs

PRICE = 100.0  # of a unit of log length: rewards differ by less than ten
HALVINGS = 30  # of the prices from minus that up


def run_raft(ours: PPOTrainer) -> LoadedModel:
    """Sample, keep the best of each prompt, take SFT's steps on these.

    Args:
        ours: the trainer whose model, prompts, reward and settings it takes.
    """
    # 1. As many optimiser steps as PPO's.
    settings, model = ours.config, ours.policy.model
    steps = settings.num_minibatches * settings.update_epochs
    total = settings.updates * steps
    optimizer = torch.optim.Adam(
        model.parameters(), settings.learning_rate, eps=ADAM_EPS
    )
    schedule = get_linear_schedule_with_warmup(
        optimizer, round(formulas.WARMUP * total), total
    )
    count = settings.batch_size // GENERATIONS
    for update in range(settings.updates):
        # 2. Completions of as many episodes.
        places = draws.positions(
            update * count, count, len(ours.prompts), ours.seed
        )
        prompts = [ours.prompts[p] for p in places for _ in range(GENERATIONS)]
        sampled = generate(
            model,
            ours.tokenizer,
            prompts,
            **settings.sampling,
            seed=draws.seed_of(ours.seed, "raft", update),
            batch_size=settings.batch_size,
            bf16=ours.compute.bf16,
            encode=ours.sampler.encode,
        )
        # 3. The best of each prompt.
        best = chosen(ours, prompts, sampled)
        # 4. SFT's steps on these.
        minibatches = settings.num_minibatches
        parts = [best[i % minibatches :: minibatches] for i in range(steps)]
        for part in filter(None, parts):
            with ours.compute.autocast():
                loss = -body_logprobs(
                    model,
                    [(sampled.prompt_ids[r], sampled.ids[r]) for r in part],
                ).mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM)
            optimizer.step()
            ours.policy.merge()
            schedule.step()
    return LoadedModel(model.eval(), ours.tokenizer)


def chosen(
    ours: PPOTrainer, prompts: list[str], sampled: Completions
) -> list[int]:
    """The places of the best, as long as all where lengths are kept."""
    judged, finished = sampled.judged, sampled.finished
    rewards = total_rewards(ours, prompts, judged, finished)
    if not ours.config.keep_length:
        return best_of_each(rewards, GENERATIONS)
    tokens = [len(ids) for ids in sampled.ids]
    longer = longer_than_siblings(
        prompts, judged, tokens, finished, GENERATIONS
    )
    best = best_as_long(rewards, longer.tolist(), GENERATIONS)
    print(f"log length less siblings': {longer[best].mean().item():+.3f}")
    return best


def best_of_each(rewards: list[float], size: int) -> list[int]:
    """The place of the best of each `size` neighbours; the first of equals."""
    return [
        max(range(begin, begin + size), key=lambda place: rewards[place])
        for begin in range(0, len(rewards), size)
    ]


def best_as_long(
    rewards: Sequence[float], longer: Sequence[float], size: int
) -> list[int]:
    """The best of each, at the price of length that keeps lengths.

    Those chosen are shorter the higher the price is; it is halved in on from
    both sides, and of what is tried the choice nearest to its neighbours'
    mean length is taken.

    Args:
        rewards: of completions.
        longer: by how much their log lengths are above their neighbours'.
        size: how many neighbours one is chosen of.
    """
    tried: dict[float, list[int]] = {}  # by how much longer they are
    low, high = -PRICE, PRICE
    for _ in range(HALVINGS):
        price = (low + high) / 2
        pairs = zip(rewards, longer, strict=True)
        priced = [reward - price * above for reward, above in pairs]
        best = best_of_each(priced, size)
        total = sum(longer[place] for place in best)
        tried[abs(total)] = best
        low, high = (price, high) if total > 0 else (low, price)
    return tried[min(tried)]
