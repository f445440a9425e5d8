"""Tiny models and a tokenizer, built in-process: no file, no network."""

import gc
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # what runs no test itself, as xdist's first process, waits
    from transformers import (
        GPT2LMHeadModel,
        LlamaForCausalLM,
        PreTrainedModel,
        PreTrainedTokenizerFast,
    )

    from stylerl.judge import Judge, Source, Verdict
    from stylerl.judge.pool import WorkerPool

# Of engines that are not here; `make test-engines` has them.
collect_ignore_glob = [] if find_spec("verl") else ["engines/*"]
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# A repository that a test begins has not yet said so itself.
os.environ.setdefault("DVC_NO_ANALYTICS", "1")
# Tiny models gain nothing from a second thread, and two of them spin when
# another process wants the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

CORPUS = [
    'def add(a, b):\n    """Return the sum."""\n    return a + b\n',
    (
        "def area(width, height):\n    result = width * height\n"
        "    return result\n"
    ),
    (
        "def names(items):\n    found = []\n    for item in items:\n"
        "        if item is not None:\n            found.append(item.name)\n"
        "    return found\n"
    ),
    (
        "def first(values, default=None):\n    for value in values:\n"
        "        return value\n    return default\n"
    ),
]


def pytest_collectstart() -> None:
    """Search for no garbage while the test files are imported."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Search no more for garbage in torch, Prefect, MLflow and the tests.

    They leave millions of objects that live as long as the worker; what a
    test makes from here on is searched as ever.
    """
    gc.freeze()
    gc.enable()


def build_tokenizer(vocabulary: int = 320) -> "PreTrainedTokenizerFast":
    """A byte-level BPE with `<|pad|>` (id 0) and `<|eos|>` (id 1)."""
    from tokenizers import (
        Tokenizer,
        decoders,
        models,
        pre_tokenizers,
        trainers,
    )
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=["<|pad|>", "<|eos|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(CORPUS, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        bos_token="<|eos|>",
        eos_token="<|eos|>",
        pad_token="<|pad|>",
        padding_side="left",
    )


def build_llama(
    vocabulary: int, *, hidden: int = 32, layers: int = 2, seed: int = 0
) -> "LlamaForCausalLM":
    """The base's architecture, in little."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=1,
        initializer_range=0.2,
    )
    return LlamaForCausalLM(config).eval()


def build_gpt2(
    vocabulary: int, *, hidden: int = 32, layers: int = 2, seed: int = 0
) -> "GPT2LMHeadModel":
    """codeparrot-small's architecture, in little: absolute positions."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=vocabulary,
        n_embd=hidden,
        n_layer=layers,
        n_head=2,
        n_positions=256,
        scale_attn_by_inverse_layer_idx=True,
        reorder_and_upcast_attn=False,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=1,
        initializer_range=0.2,
    )
    return GPT2LMHeadModel(config).eval()


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """What code writes into the environment ends with the test."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="session")
def tokenizer() -> "PreTrainedTokenizerFast":
    """The tiny byte-level tokenizer; do not change it in a test."""
    return build_tokenizer()


@pytest.fixture
def tiny_llama(tokenizer: "PreTrainedTokenizerFast") -> "LlamaForCausalLM":
    """A fresh two-layer Llama with random weights."""
    return build_llama(len(tokenizer))


@pytest.fixture
def tiny_gpt2(tokenizer: "PreTrainedTokenizerFast") -> "GPT2LMHeadModel":
    """A fresh two-layer GPT-2 with random weights."""
    return build_gpt2(len(tokenizer))


@pytest.fixture(params=[build_llama, build_gpt2], ids=["llama", "gpt2"])
def tiny_lm(
    request: pytest.FixtureRequest, tokenizer: "PreTrainedTokenizerFast"
) -> "PreTrainedModel":
    """Each of the two architectures in turn."""
    build: Callable[[int], PreTrainedModel] = request.param
    return build(len(tokenizer))


@pytest.fixture(scope="session")
def llama_folder(
    tokenizer: "PreTrainedTokenizerFast",
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A model folder as `artifacts/base` is one."""
    from stylerl.lm.saving import save_model

    folder = tmp_path_factory.mktemp("models") / "base"
    save_model(build_llama(len(tokenizer)), tokenizer, folder)
    return folder


@pytest.fixture(scope="session")
def judge() -> "Judge":
    """The judge of the default parameters."""
    from stylerl.config import JudgeConfig
    from stylerl.judge import Judge

    return Judge(JudgeConfig())


@pytest.fixture
def rng() -> random.Random:
    """A seeded generator of its own."""
    return random.Random(0)


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Every source that flake8 sees from here on."""
    from stylerl.judge import pool

    seen: list[bytes] = []
    judge = pool.WorkerPool.judge

    def record(
        pool: "WorkerPool", sources: "Iterable[Source]", jobs: int
    ) -> "Iterator[Verdict]":
        sources = list(sources)
        seen.extend(source.content for source in sources)
        return judge(pool, sources, jobs)

    monkeypatch.setattr(pool.WorkerPool, "judge", record)
    return seen


def grader(reward, monitor=None, credit=None, whole_lines=False):
    """A grader of functions, for what a reward alone does not say."""

    from stylerl.reward.functions import Feedback

    def grade(prompts, completions, finished):
        return Feedback(
            reward(prompts, completions),
            credit(prompts, completions) if credit else None,
            monitor(prompts, completions, finished) if monitor else {},
        )

    grade.whole_lines = whole_lines
    return grade


def share_of(kind: Callable[[str], bool]):
    """A reward: the share of a text's characters that are of a kind."""

    def reward(prompts, completions):
        return [sum(map(kind, t)) / max(len(t), 1) for t in completions]

    return reward


def build_trainer(grader, prompts, policy=None, tokenizer=None, **changes):
    """A trainer of a tiny Llama in fp32, all of whose weights learn.

    What is no setting of PPO is handed to the trainer itself.
    """
    from stylerl.ppo import PPOConfig, PPOTrainer

    tokenizer = tokenizer or build_tokenizer()
    given = ("checkpoints", "reference", "seed")
    options = {name: changes.pop(name) for name in given if name in changes}
    settings = {"precision": "fp32", "lora_rank": 0, "checkpoint_every": 0}
    return PPOTrainer(
        PPOConfig(**settings | changes),
        policy=build_llama(len(tokenizer)) if policy is None else policy,
        tokenizer=tokenizer,
        grader=grader,
        prompts=prompts,
        **options,
    )


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """No file may grow beyond so many bytes, as under `ulimit -f`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def alive(process: int) -> bool:
    """Whether it runs; what is left of an orphan may wait for a reaper."""
    import psutil

    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_for(happened: Callable[[], bool], seconds: float = 120) -> None:
    """Until something has happened, which must not take longer."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


class KeptRun:
    """Stands in for an MLflow run: remembers what was logged."""

    def __init__(self):
        self.metrics, self.files, self.tags = {}, [], {}
        self.models = {}

    def log_metrics(self, metrics, step=None):
        self.metrics.update(metrics)

    def log_models(self, scores):
        self.models.update(scores)

    def log_table(self, name, table):
        """No test asks for it."""

    def log_file(self, path):
        self.files.append(path)

    def log_tags(self, tags):
        self.tags.update(tags)


def write_params(changes=(), folder: Path = Path()):
    """The default parameters, some of them changed, and params.yaml."""
    from stylerl import config

    params = config.override(config.Params(), dict(changes))
    (folder / "params.yaml").write_text(config.render(params))
    return params


def run_python(code: str, **more) -> subprocess.CompletedProcess[str]:
    """What a process of its own makes of some code."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, **more)


def dvc(*arguments: str) -> str:
    """What a DVC command prints in the current folder."""
    command = [sys.executable, "-m", "dvc", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def git(*arguments: str, folder: Path | str = ".") -> None:
    """Run git there, as somebody who may commit."""
    me = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", *me, *arguments], cwd=folder, check=True)
