"""Preflight checks: what would go wrong, said before it does.

Every check returns one `Finding`: what was looked at, what was found, and,
where it is not well, what to do about it in plain words.  A check never
changes anything and never needs the network, except where params.yaml names
a model of the hub.
"""

import importlib.metadata
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import torch
from packaging.requirements import Requirement
from rich.table import Table
from rich.text import Text

from stylerl import config, storage
from stylerl.cli import between_prompts, rehearsal
from stylerl.cli.rehearsal import Rehearsal
from stylerl.config import Params
from stylerl.errors import ConfigError, DataError, ModelError
from stylerl.lm import models
from stylerl.ppo import health, memory
from stylerl.ppo.policy import PolicyWithValue

DISK_GIB = 3.0  # data/, artifacts, DVC's cache and the MLflow store
EXTRAS = ("pipeline", "lora", "cluster")  # of pyproject.toml; dev is ours
PORTS = {5000: "MLflow UI", 4200: "Prefect server"}
WHITESPACE = "def f(x):\n\tif x:\n\t\treturn  x \n\n\n    # é 漢\r\n\x0c  "
ATTENTION_TOLERANCE = 1e-3  # of logits, fp32
RATIO_TOLERANCE = 1e-3  # of log-probabilities, fp32
SFT = "artifacts/sft"


class Status(StrEnum):
    """How a check came out; only FAIL stops a run."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(NamedTuple):
    """One line of the doctor's table."""

    check: str
    detail: str
    remedy: str = ""  # where it is not well
    fatal: bool = True  # a run would fail, not only be worse than it could

    @property
    def status(self) -> Status:
        """OK without a remedy."""
        if not self.remedy:
            return Status.OK
        return Status.FAIL if self.fatal else Status.WARN


def examine(root: Path) -> Iterator[Finding]:
    """Check the machine, then what is in `root`, one by one.

    Outside a checkout nothing is amiss where there are no data, parameters
    or pipeline: judge, trainer and completions need none of them.
    """
    checkout = (root / "dvc.yaml").exists()
    yield check_packages(needed="pipeline" if checkout else "")
    yield check_torch()
    yield check_git()
    yield check_disk(root)
    for port, server in PORTS.items():
        yield check_port(port, server)
    if checkout or (root / "data").exists():
        yield check_data(root / "data")
    path = root / "params.yaml"
    if checkout or path.exists():
        parameters = check_parameters(path)
        yield parameters
        if parameters.status is not Status.FAIL:
            yield from _examine_model(root, config.load(path))
    if not checkout:
        yield _outside(root)


def _outside(root: Path) -> Finding:
    """What is not there, where the working directory is no checkout."""
    needed = ("dvc.yaml", "data", "params.yaml")
    absent = [name for name in needed if not (root / name).exists()]
    return Finding(
        "checkout",
        f"none here: no {', no '.join(absent)}",
        "judge, complete --model and the trainer need none; `git clone` "
        "stylerl and run there for the pipeline",
        fatal=False,
    )


def _examine_model(root: Path, params: Params) -> Iterator[Finding]:
    name = _rooted(root, params.sft.base)
    model = check_model(name, params.sft.revision)
    yield model
    if model.status is Status.FAIL:
        return
    yield check_tokenizer(name, params.sft.revision)
    yield check_attention(name, params.sft.revision)
    yield from check_first_update(root, params)
    yield check_baseline(root, params)
    if params.ppo.lora_rank:
        yield check_adapters(name, params)
    yield check_memory(name, params)


def render(findings: list[Finding]) -> Table:
    """The findings as a table for the terminal."""
    colours = {Status.OK: "green", Status.WARN: "yellow", Status.FAIL: "red"}
    table = Table(show_header=False, box=None, padding=(0, 1))
    for finding in findings:
        colour = colours[finding.status]
        table.add_row(
            Text(f"{finding.status:>4}", colour),
            finding.check,
            Text(finding.detail),
        )
        if finding.remedy:
            table.add_row("", "", Text(f"-> {finding.remedy}", colour))
    return table


def check_packages(needed: str = "") -> Finding:
    """Every dependency is installed in a version that its bound allows.

    Args:
        needed: an extra that must be complete as well; of the others it is
            said whether they are.
    """
    wrong = {extra: _unmet(extra) for extra in ("", *EXTRAS)}
    if unmet := [*wrong[""], *(wrong[needed] if needed else ())]:
        remedy = "pip install --upgrade stylerl"
        if needed:
            remedy = (
                "pip install -r requirements.lock, or remove .venv and run "
                "make"
            )
        return Finding("packages", "; ".join(unmet), remedy)
    complete = [extra for extra in EXTRAS if not wrong[extra]]
    absent = [f"stylerl[{extra}]" for extra in EXTRAS if wrong[extra]]
    detail = "as pyproject.toml asks"
    if complete:
        detail += f", with {', '.join(complete)}"
    if absent:
        detail += f"; not installed: {', '.join(absent)}"
    return Finding("packages", detail)


def _unmet(extra: str) -> list[str]:
    """The requirements that the extra adds, or the base's, and that fail."""
    unmet = []
    for line in importlib.metadata.requires("stylerl") or ():
        requirement = Requirement(line)
        marker = requirement.marker
        of_extra = marker is not None and not marker.evaluate({"extra": ""})
        if of_extra != bool(extra):
            continue
        if marker and not marker.evaluate({"extra": extra}):
            continue
        try:
            found = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            found = ""
        if not found or not requirement.specifier.contains(found, True):
            asked = f"{requirement.name}{requirement.specifier}"
            unmet.append(f"{asked} (found {found or 'none'})")
    return unmet


def check_torch() -> Finding:
    """Which Python and torch run, and on what."""
    if torch.cuda.is_available():
        place = torch.cuda.get_device_name(0)
    else:
        place = f"CPU, {torch.get_num_threads()} threads"
    python = sys.version.split()[0]
    return Finding("torch", f"{torch.__version__} on {place}, Python {python}")


def check_git() -> Finding:
    """`git` can be called: the commit of a run is recorded by it."""
    if shutil.which("git") is None:
        return Finding(
            "git",
            "not on PATH; runs will not record their commit",
            "install git from your system's packages",
            fatal=False,
        )
    return Finding("git", "on PATH")


def check_disk(root: Path, needed: float = DISK_GIB) -> Finding:
    """There is room for one run."""
    free = shutil.disk_usage(root).free / 2**30
    detail = f"{free:.1f} GiB free; a default run takes about {needed:g}"
    remedy = "free some, or move" if free < needed else ""
    return Finding("disk", detail, remedy)


def check_port(port: int, server: str) -> Finding:
    """A server of ours could listen here."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return Finding(
                f"port {port}",
                f"taken; {server} would listen here",
                "it may be running already; if not, stop what holds the port",
                fatal=False,
            )
    return Finding(f"port {port}", f"free for the {server}")


def check_data(folder: Path) -> Finding:
    """The corpus is there and has as many files as its manifest says."""
    try:
        manifest = storage.read_json(folder / "manifest.json")
        rows = pq.read_metadata(folder / "corpus.parquet").num_rows
    except (DataError, OSError, ValueError) as error:
        cause = str(error).splitlines()[0]
        return Finding("data", cause, "stylerl collect")
    if rows != manifest["files"]:
        return Finding(
            "data",
            f"corpus.parquet holds {rows} files, manifest.json says "
            f"{manifest['files']}",
            "rm -r data, then stylerl collect",
        )
    return Finding("data", f"{rows} files, as its manifest says")


def check_parameters(path: Path) -> Finding:
    """params.yaml obeys the rules of stylerl/config/sections.py."""
    try:
        params = config.load(path)
    except ConfigError as error:
        return Finding(
            "params.yaml",
            str(error),
            "correct it, or stylerl params --preset default",
        )
    return Finding("params.yaml", f"preset {params.preset}")


def check_model(name: str, revision: str) -> Finding:
    """The base model can be loaded."""
    try:
        size = memory.shape_of(name, revision)
    except ModelError as error:
        return Finding(
            "base model",
            str(error),
            "dvc pull pretrain brings the embedded one; or name another in "
            "sft.base",
        )
    return Finding("base model", f"{size.parameters / 1e6:.1f}M parameters")


def check_tokenizer(name: str, revision: str) -> Finding:
    """The tokenizer keeps every character, and pad is not eos."""
    tokenizer = models.load_tokenizer(name, revision)
    ids = tokenizer.encode(WHITESPACE, add_special_tokens=False)
    back = tokenizer.decode(ids, clean_up_tokenization_spaces=False)
    if back != WHITESPACE:
        return Finding(
            "tokenizer",
            f"{WHITESPACE!r} comes back as {back!r}",
            "style lives in whitespace: choose a model whose tokenizer is "
            "byte-level",
        )
    if tokenizer.pad_token_id == tokenizer.eos_token_id:
        return Finding(
            "tokenizer",
            "pad is eos, so the end of a text could not be learnt",
            "give the tokenizer a pad token of its own",
        )
    return Finding("tokenizer", "keeps whitespace; pad is not eos")


def check_attention(name: str, revision: str) -> Finding:
    """The fused attention computes what the plain one does."""
    tokenizer = models.load_tokenizer(name, revision)
    ids = torch.tensor([models.encode_prompt(tokenizer, WHITESPACE)])
    mask = torch.ones_like(ids)
    logits = []
    for attention in ("sdpa", "eager"):
        model = models.load_causal_lm(name, revision, tokenizer, attention)
        with torch.inference_mode():
            logits.append(model(input_ids=ids, attention_mask=mask).logits)
    gap = float((logits[0] - logits[1]).abs().max())
    if gap > ATTENTION_TOLERANCE:
        return Finding(
            "attention",
            f"sdpa and eager differ by {gap:.2g} in the logits",
            "update transformers: pip install -r requirements.lock",
        )
    return Finding("attention", f"sdpa = eager to {gap:.1g}")


def check_first_update(root: Path, params: Params) -> Iterator[Finding]:
    """PPO's invariants, on the SFT model where there is one by now."""
    name, revision = _rooted(root, params.sft.base), params.sft.revision
    if (root / SFT).is_dir():
        name, revision = os.fspath(root / SFT), "main"
    try:
        found = rehearsal.rehearse(name, revision, params)
    except ModelError as error:
        yield Finding(
            "rehearsal",
            str(error),
            "lower ppo.max_new_tokens, or choose another model",
        )
        return
    yield _ratio(found)
    yield _padding(found)
    yield _endings(found, params.ppo.max_new_tokens)
    yield _reward(found)


def _ratio(found: Rehearsal) -> Finding:
    if not abs(found.ratio) < RATIO_TOLERANCE:
        return Finding(
            "ratio",
            "the same weights give a text another probability the second "
            f"time: {1 + found.ratio:.4g} times the first",
            "something in the model is random, such as a dropout of its "
            "own: choose a stock Llama, GPT-2 or similar model",
        )
    return Finding("ratio", "1 before the first step")


def _padding(found: Rehearsal) -> Finding:
    if not (found.padding < RATIO_TOLERANCE and found.alike):
        return Finding(
            "padding",
            "a text is scored or sampled differently next to a longer one "
            f"(log-probabilities differ by {found.padding:.2g})",
            "the model ignores attention_mask or position_ids: choose "
            "a stock Llama, GPT-2 or similar model",
        )
    return Finding("padding", "changes no score and no sample")


def _endings(found: Rehearsal, limit: int) -> Finding:
    samples = f"{found.ended:.0%} of {rehearsal.SAMPLES} samples"
    remedy = (
        "ppo.missing_eos_penalty would charge most: raise "
        "ppo.max_new_tokens, or let SFT teach it to end"
    )
    return Finding(
        "endings",
        f"{samples} end within {limit} tokens",
        remedy if found.ended < 0.5 else "",
        fatal=False,
    )


def _reward(found: Rehearsal) -> Finding:
    remedy = (
        "all texts are worth the same, so there is nothing to learn: lower "
        "ppo.temperature, or train the base or SFT model longer so that its "
        "texts parse"
    )
    return Finding(
        "reward",
        f"the linter's rewards of {rehearsal.SAMPLES} samples have a "
        f"standard deviation of {found.spread:.2f}",
        remedy if found.spread < health.FLAT else "",
        fatal=False,
    )


def check_baseline(root: Path, params: Params) -> Finding:
    """How much of the reward a baseline could explain, where SFT is done."""
    name = "baseline"
    try:
        found = between_prompts.measure(root, params)
    except (ConfigError, DataError, ModelError) as error:
        return Finding(name, f"what it can explain is not known yet: {error}")
    shares = [
        f"{what} {each.estimate:.3f} [{each.low:.3f}, {each.high:.3f}]"
        for what, each in (
            ("compliance", found.compliance),
            ("the reward", found.reward),
        )
    ]
    size = params.ppo.group_size
    return Finding(
        name,
        f"{params.ppo.baseline}; share of the variance between prompts (ICC) "
        f"of {' and of '.join(shares)}, {found.prompts} prompts x "
        f"{between_prompts.SAMPLES}; for the reward "
        f"{between_prompts.meaning(found.reward.estimate, size)}",
    )


def check_adapters(name: str, params: Params) -> Finding:
    """LoRA finds the layers it is to adapt."""
    ppo, model = params.ppo, models.load_causal_lm(name, params.sft.revision)
    policy = PolicyWithValue(model, value=ppo.critic)
    size = model.num_parameters()
    try:
        policy.add_adapters(ppo.lora_rank, ppo.lora_alpha, ppo.lora_targets, 0)
    except ConfigError as error:
        return Finding(
            "adapters",
            str(error),
            "set ppo.lora_targets to [all-linear], or ppo.lora_rank to 0",
        )
    trained = sum(weight.numel() for weight in policy.trained().values())
    return Finding(
        "adapters", f"LoRA trains {trained:,} of {size:,} parameters"
    )


def check_memory(name: str, params: Params) -> Finding:
    """PPO, the largest stage, would fit into what is free."""
    needed = memory.ppo_bytes(
        memory.shape_of(name, params.sft.revision), params.ppo
    )
    free = memory.available_bytes()
    detail = (
        f"{free / 2**30:.1f} GiB free; PPO takes about {needed / 2**30:.1f}"
    )
    remedy = "set ppo.micro_batch to a smaller number than it is, but not 0"
    return Finding("memory", detail, remedy if needed > free else "")


def _rooted(root: Path, name: str) -> str:
    """A model folder relative to `root`, a hub name as it is."""
    local = root / name
    relative = name.startswith(("artifacts/", ".")) or local.is_dir()
    return os.fspath(local) if relative else name
