"""Stage `ppo`: the SFT model, rewarded for style -> artifacts/ppo.

A killed run goes on from its last checkpoint, under checkpoints/ppo/ and the
stage's key: what the same command would do, and nothing else.
"""

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from tqdm import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from stylerl import config, draws, models, storage
from stylerl.errors import ConfigError, DataError
from stylerl.judge import Judge
from stylerl.labels import compliant_prompts
from stylerl.policy import PolicyWithValue
from stylerl.ppo import PPOTrainer, Step, health
from stylerl.ppo.compute import Compute
from stylerl.ppo.credit import Credit
from stylerl.ppo.processes import Processes
from stylerl.reward import composite as rewards
from stylerl.reward import functions
from stylerl.reward.credit import LinterCredit
from stylerl.reward.scorers import Scorer
from stylerl.sampling import generate
from tasks import graph, process, tracking

LABELS = Path("artifacts/label/labels.parquet")
SFT = Path("artifacts/sft")
REWARD_MODELS = Path("artifacts/reward")
CHECKPOINTS = Path("checkpoints/ppo")
FOLDER = Path("artifacts/ppo")
ROLLOUTS = FOLDER / "rollouts.jsonl"
UPDATES = Path("metrics/ppo.csv")
METRICS = Path("metrics/ppo.json")
SAMPLES = 8  # completions logged, every so many updates:
SAMPLE_EVERY = 10
ROLLOUT_PROMPTS = 128  # at most, of the rollouts kept
LATEST = 5  # updates in the final means
SUMMARY = (
    "objective/score",
    "objective/kl",
    "objective/entropy",
    "judge/compliance",
    "judge/parse_rate",
    "judge/statements",
    "response/length",
    "response/eos_rate",
)


def main() -> None:
    """Train with the parameters of params.yaml.

    Of several processes (`accelerate launch`) the main one logs and writes.
    """
    params = config.load()
    if not Processes().main:
        for _ in (trainer := _trainer(params)):
            pass
        trainer.save_policy(FOLDER)
        return
    for path in undeclared([*params.ppo.reward, params.ppo.reference]):
        tqdm.write(
            f"ppo: a change of {path} will not run the stage again, because "
            "dvc.yaml does not name it: add it to the deps of ppo"
        )
    with tracking.stage_run("ppo", config.to_dict(params.ppo)) as run:
        run.log_tag("judge", Judge(params.judge).identity)
        trainer = _trainer(params)
        trainer.resume()
        for update, numbers in enumerate(trainer.history, start=1):
            run.log_metrics(numbers, update)
        sounded: set[str] = set()
        for step in trainer:
            _log(run, step, sounded)
        trainer.save_policy(FOLDER)
        storage.write_text(ROLLOUTS, _rollouts(trainer))
        table = _updates(trainer.history)
        storage.write_text(UPDATES, table.to_csv(index=False))
        summary = _summary(table) | _kept(trainer)
        storage.write_json(METRICS, summary)
        run.log_metrics(summary)
        run.log_file(UPDATES)
        if trainer.stopped:
            run.log_tag("stopped", str(trainer.stopped))
    if trainer.checkpoints:
        shutil.rmtree(trainer.checkpoints, ignore_errors=True)


def undeclared(reward: Iterable[str]) -> list[Path]:
    """What parts of a reward, or a reference, read beyond the stage's deps.

    Raises:
        ConfigError: a `module:function` cannot be imported.
    """
    declared = [Path(dep).resolve() for dep in graph.find("ppo").deps]
    return [
        path
        for path in _sources(reward)
        if not any(path.is_relative_to(dep) for dep in declared)
    ]


def _sources(reward: Iterable[str]) -> Iterator[Path]:
    """The files of functions, and the folders of reward models."""
    for name in reward:
        if ":" in name:
            functions.load(name)
            if file := functions.source(name):
                yield file
        else:
            _, _, members = name.rpartition(" of ")
            for member in members.split(" and "):
                if "/" in member:
                    yield Path(member).resolve()


def _trainer(params: config.Params) -> PPOTrainer:
    """Put models, prompts and reward together."""
    device = Processes().device
    tokenizer = models.load_tokenizer(SFT)
    policy: Any = models.load_causal_lm(SFT, tokenizer=tokenizer)
    policy.to(device)
    settings, judge = params.ppo, Judge(params.judge)
    models.sign(policy, judge.identity)

    labels = storage.read_table(LABELS)

    def draw(split: str, count: int) -> list[str]:
        found = compliant_prompts(labels, split, params.seed)
        return _fitting(found, count, settings, policy, tokenizer)

    def expected(prompts: list[str], name: str) -> dict[str, float]:
        return rewards.expected_sizes(
            policy,
            tokenizer,
            prompts,
            settings,
            draws.seed_of(params.seed, name),
            bf16=Compute.of(settings, device).bf16,
        )

    prompts = list(settings.prompt_texts) or draw("train", settings.prompts)
    if not prompts:
        raise DataError(
            "ppo needs prompts: compliant functions of the training split; "
            f"{LABELS} has none that fits: raise label.snippets, lower "
            "ppo.max_new_tokens, or write some in ppo.prompt_texts"
        )
    validation = []
    if settings.validate_every:
        validation = _enough(
            draw("valid", settings.validation_prompts), settings
        )
    sizes = expected(prompts, "reference")
    if validation:
        sizes = expected(validation, "validation reference") | sizes
    reward = rewards.compose(
        settings.reward, lambda name: _style(name, judge, device), sizes
    )
    return PPOTrainer(
        settings,
        policy=PolicyWithValue(policy, _critic(settings, device)),
        tokenizer=tokenizer,
        reward=reward,
        prompts=prompts,
        reference=_reference(params, tokenizer),
        observe=rewards.Watch(judge, _watched(settings, judge, device)),
        credit=_credit(settings, judge),
        validation=validation,
        seed=params.seed,
        checkpoints=CHECKPOINTS / _key()[:16],
    )


def _key() -> str:
    """The digest that names this execution, from the flow or by itself."""
    return os.environ.get(tracking.KEY) or graph.stage_key(graph.find("ppo"))


def _reference(
    params: config.Params, tokenizer: PreTrainedTokenizerBase
) -> PreTrainedModel | None:
    """What KL is measured from; None for the policy as it starts.

    Raises:
        ConfigError: it does not read the policy's tokens.
    """
    name, revision = params.ppo.reference, "main"
    if name == "sft":
        return None
    if name == "base":
        name, revision = params.sft.base, params.sft.revision
    own = models.load_tokenizer(name, revision)
    if own.get_vocab() != tokenizer.get_vocab():
        raise ConfigError(
            f"ppo.reference must read the policy's tokens; the tokenizer of "
            f"{name} has others: name a model with the tokenizer of {SFT}"
        )
    return models.load_causal_lm(name, revision, tokenizer)


def _credit(settings: config.PPOConfig, judge: Judge) -> Credit | None:
    """Where in a completion the linter's part of the reward was lost.

    Raises:
        ConfigError: the linter has no part in the reward.
    """
    if settings.credit == "response":
        return None
    if "linter" not in settings.reward:
        if settings.credit == "auto":
            return None
        raise ConfigError(
            "ppo.credit: token charges what the linter takes, so `linter` "
            f"must be a part of ppo.reward; got {', '.join(settings.reward)}"
        )
    return LinterCredit(judge, settings.reward["linter"])


def _critic(
    settings: config.PPOConfig, device: torch.device
) -> PreTrainedModel | None:
    """The reward model that a separate value model begins as."""
    if settings.value == "shared":
        return None
    folder = REWARD_MODELS / settings.value_from
    tokenizer = models.load_tokenizer(folder)
    model: Any = models.load_scorer(folder, tokenizer=tokenizer)
    scorer: PreTrainedModel = model.to(device)
    return scorer


def _style(name: str, judge: Judge, device: torch.device) -> rewards.Style:
    """What scores style: the linter, or a reward model."""
    if name == "linter":
        return rewards.linter_style(judge)
    folder = Path(name) if "/" in name else REWARD_MODELS / name
    tokenizer = models.load_tokenizer(folder)
    model: Any = models.load_scorer(folder, tokenizer=tokenizer)
    model.to(device)
    return rewards.learned_style(Scorer(model, tokenizer))


def _watched(
    settings: config.PPOConfig, judge: Judge, device: torch.device
) -> rewards.Style | None:
    """The reward model of ppo.watch, at the precision of PPO's passes."""
    if settings.watch == "none":
        return None
    learned = _style(settings.watch, judge, device)
    compute = Compute.of(settings, device)

    def style(prompts: list[str], completions: list[str]) -> Sequence[float]:
        with compute.autocast():
            return learned(prompts, completions)

    return style


def _fitting(
    prompts: Iterable[str],
    count: int,
    settings: config.PPOConfig,
    policy: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
) -> list[str]:
    """The first prompts that leave the policy room to answer."""
    limit = getattr(policy.config, "max_position_embeddings", None)
    if limit is None:
        return list(prompts)[:count]
    room = limit - settings.max_new_tokens
    fit = (
        prompt
        for prompt in prompts
        if len(models.encode_prompt(tokenizer, prompt)) <= room
    )
    return list(islice(fit, count))


def _enough(prompts: list[str], settings: config.PPOConfig) -> list[str]:
    """The validation prompts; none where they are fewer than processes.

    Raises:
        DataError: they are, and the best update is to be chosen by them.
    """
    processes = Processes()
    if len(prompts) >= processes.count:
        return prompts
    few = (
        "to measure the policy on its way takes compliant functions of the "
        f"validation split, at least {processes.count}; {LABELS} has "
        f"{len(prompts)} that fit"
    )
    if settings.keep == "best":
        raise DataError(
            f"{few}: raise label.snippets, lower ppo.max_new_tokens, or set "
            "ppo.keep: last"
        )
    if processes.main:
        tqdm.write(f"ppo: {few}: it is not measured")
    return []


def _log(run: tracking.Run, step: Step, sounded: set[str]) -> None:
    """Hand one update to MLflow, and its alarms to whoever watches.

    An alarm is printed once, when it first sounds; its name is then added to
    `sounded`.  The MLflow tag holds its last state.
    """
    times = {f"seconds/{k}": v for k, v in step.seconds.items()}
    times["tokens_per_second"] = step.tokens_per_second
    run.log_metrics(step.statistics | times, step.update)
    for alarm in step.alarms:
        if alarm.name not in sounded:
            tqdm.write(f"update {step.update}: {alarm}")
            sounded.add(alarm.name)
        run.log_tag(f"alarm: {alarm.name}", f"update {step.update}: {alarm}")
    if step.update % SAMPLE_EVERY == 1:
        batch = step.rollouts
        table = pd.DataFrame(
            {
                "prompt": batch.prompts,
                "completion": batch.completions,
                "finished": batch.finished,
                **{k: v.tolist() for k, v in batch.parts.items()},
                "linter": batch.observed["score"].tolist(),
            }
        )
        run.log_table(f"rollouts_{step.update:04d}.json", table.head(SAMPLES))


def _rollouts(trainer: PPOTrainer) -> str:
    """What the trained policy writes, as JSON lines for `reward.rollouts`.

    Two completions a prompt, so that there are pairs; drawn from what was
    saved, so that an interrupted run leaves the same ones.
    """
    settings = trainer.config
    policy: Any = models.load_causal_lm(FOLDER, tokenizer=trainer.tokenizer)
    chosen = trainer.prompts[:ROLLOUT_PROMPTS]
    prompts = [prompt for prompt in chosen for _ in range(2)]
    sampled = generate(
        policy.to(trainer.processes.device),
        trainer.tokenizer,
        prompts,
        max_new_tokens=settings.max_new_tokens,
        min_new_tokens=settings.min_new_tokens,
        stop_strings=settings.stop_strings,
        temperature=settings.temperature,
        seed=draws.seed_of(trainer.seed, "rollouts"),
        batch_size=settings.batch_size,
        bf16=trainer.compute.bf16,
        desc="ppo: sample the policy",
    )
    rows = zip(prompts, sampled.judged, sampled.finished, strict=True)
    return "".join(
        json.dumps({"prompt": p, "completion": c, "finished": f}) + "\n"
        for p, c, f in rows
    )


def _updates(history: list[dict[str, float]]) -> pd.DataFrame:
    """One row an update: its statistics, and the names of its alarms."""
    rows = [
        {
            "update": update,
            **numbers,
            "alarms": "; ".join(
                alarm.name for alarm in health.alarms(history[:update])
            ),
        }
        for update, numbers in enumerate(history, start=1)
    ]
    return pd.DataFrame(rows)


def _summary(table: pd.DataFrame) -> dict[str, Any]:
    """The means of the last updates, and how many raised an alarm."""
    last = table.tail(LATEST)
    means = {
        name.partition("/")[2]: round(float(last[name].mean()), 6)
        for name in SUMMARY
        if name in last
    }
    alarms = int((table["alarms"] != "").sum()) if len(table) else 0
    return {**means, "updates": len(table), "alarms": alarms}


def _kept(trainer: PPOTrainer) -> dict[str, int]:
    """The update whose weights are the result, where one was to be chosen."""
    if trainer.config.keep == "last":
        return {}
    if trainer.best is None:
        tqdm.write(
            "ppo: no measured update stayed within ppo.kl_budget, so the "
            "last one is kept: raise the budget or ppo.kl_coef"
        )
        return {"kept_update": trainer.done}
    return {"kept_update": trainer.best.update}


if __name__ == "__main__":
    process.run(main)
