"""Preflight checks: what would go wrong, said before it does.

A check never changes anything and never needs the network.  What the trainer,
the stages and the servers check by themselves before they start is not checked
here, nor what `pip check` says of installed packages.
"""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import torch

from stylerl import config
from stylerl.errors import ConfigError, ModelError
from stylerl.lm import encoding, models
from stylerl.skill import sandbox

DISK_GIB = 3.0  # data/, artifacts, DVC's cache and the MLflow store
# What a tokenizer must give back.
WHITESPACE = "def f(x):\n\tif x:\n\t\treturn  x \n\n\n    # é 漢\r\n\x0c  "


class Finding(NamedTuple):
    """What was looked at, what was found, and what to do about it."""

    check: str
    detail: str
    remedy: str = ""  # where it is not well
    fatal: bool = True  # a run would fail, not only be worse than it could

    @property
    def failed(self) -> bool:
        """Whether it would stop a run."""
        return bool(self.remedy) and self.fatal


def run(root: Path) -> int:
    """Print what is found in `root`; 1 where it would stop a run."""
    failed = 0
    for finding in examine(root):
        word = "ok"
        if finding.remedy:
            word = "FAIL" if finding.failed else "warn"
        print(f"{word:>4}  {finding.check:<11}  {finding.detail}")
        if finding.remedy:
            print(f"{'':19}-> {finding.remedy}")
        failed |= finding.failed
    return failed


def examine(root: Path) -> Iterator[Finding]:
    """Check the machine, then what is in `root`, one by one.

    Outside a checkout nothing is amiss where there are no data, parameters
    or pipeline: judge, trainer and completions need none of them.
    """
    checkout = (root / "dvc.yaml").exists()
    yield check_torch()
    yield check_sandbox()
    yield check_disk(root)
    if checkout or (root / "data").exists():
        yield check_data(root / "data")
    path = root / "params.yaml"
    if checkout or path.exists():
        parameters = check_parameters(path)
        yield parameters
        if not parameters.failed:
            name = str(root / config.load(path).sft.base)
            model = check_model(name)
            yield model
            if not model.failed:
                yield check_tokenizer(name)


def check_torch() -> Finding:
    """Which Python and torch run, and on what."""
    if torch.cuda.is_available():
        place = torch.cuda.get_device_name(0)
    else:
        place = f"CPU, {torch.get_num_threads()} threads"
    python = sys.version.split()[0]
    return Finding("torch", f"{torch.__version__} on {place}, Python {python}")


def check_sandbox() -> Finding:
    """Generated code can be run where it does no harm."""
    if why := sandbox.why_not():
        return Finding(
            "sandbox",
            why,
            "the stage skill will run nothing and measure nothing",
            fatal=False,
        )
    return Finding("sandbox", "bubblewrap starts, and holds")


def check_disk(root: Path, needed: float = DISK_GIB) -> Finding:
    """There is room for one run."""
    free = shutil.disk_usage(root).free / 2**30
    detail = f"{free:.1f} GiB free; a default run takes about {needed:g}"
    remedy = "free some, or move" if free < needed else ""
    return Finding("disk", detail, remedy)


def check_data(folder: Path) -> Finding:
    """The corpus is there and can be read."""
    try:
        files = pq.read_metadata(folder / "corpus.parquet").num_rows
    except (OSError, ValueError) as error:
        cause = str(error).splitlines()[0]
        return Finding("data", cause, "stylerl collect")
    return Finding("data", f"{files} files")


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


def check_model(name: str) -> Finding:
    """The base model can be loaded."""
    try:
        size = models.load_causal_lm(name).num_parameters()
    except ModelError as error:
        return Finding(
            "base model",
            str(error),
            "`dvc repro base` makes artifacts/base; or name another folder "
            "in sft.base",
        )
    return Finding("base model", f"{size / 1e6:.1f}M parameters")


def check_tokenizer(name: str) -> Finding:
    """The tokenizer keeps every character."""
    tokenizer = encoding.load_tokenizer(name)
    ids = encoding.encode_code(tokenizer, WHITESPACE)
    back = tokenizer.decode(ids, clean_up_tokenization_spaces=False)
    if back != WHITESPACE:
        return Finding(
            "tokenizer",
            f"{WHITESPACE!r} comes back as {back!r}",
            "style lives in whitespace: choose a model whose tokenizer is "
            "byte-level",
        )
    return Finding("tokenizer", "keeps whitespace")
