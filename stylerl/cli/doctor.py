"""Preflight checks: problems, said before a run meets them.

A check never changes anything and never needs the network.  What the trainer,
the stages and the servers check by themselves before they start is not checked
here, nor what `pip check` says of installed packages.
"""

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import torch

from stylerl import config
from stylerl.config import paths
from stylerl.errors import DataError, DiskError, StylerlError
from stylerl.lm import encoding, models
from stylerl.skill import sandbox

DISK_GIB = 3.0  # data/, artifacts, DVC's cache and the MLflow store
Check = Callable[[], str]  # what is found; a StylerlError says what is wrong


def run(root: Path) -> int:
    """Print what is found in `root`; 1 where it would stop a run."""
    failed = 0
    for name, check in checks(root):
        word = "ok"
        try:
            detail = check()
        except StylerlError as error:
            word, detail, failed = "FAIL", str(error), 1
        print(f"{word:>4}  {name:<11}  {detail}")
    return failed


def checks(root: Path) -> Iterator[tuple[str, Check]]:
    """The checks of the machine, then of what is in `root`, by name.

    Outside a checkout nothing is amiss where there are no data and no
    parameters: judge, trainer and completions need neither.
    """
    yield "torch", find_torch
    yield "sandbox", try_sandbox
    yield "disk", lambda: measure_disk(root)
    checkout = (root / "dvc.yaml").exists()
    if checkout or (root / "data").exists():
        yield "data", lambda: read_data(root / "data/corpus.parquet")
    if checkout or (root / "params.yaml").exists():
        yield "params.yaml", lambda: load_base(root)


def find_torch() -> str:
    """Which Python and torch run, and on what."""
    if torch.cuda.is_available():
        place = torch.cuda.get_device_name(0)
    else:
        place = f"CPU, {torch.get_num_threads()} threads"
    python = sys.version.split()[0]
    return f"{torch.__version__} on {place}, Python {python}"


def try_sandbox() -> str:
    """Whether generated code can be run where it does no harm."""
    if why := sandbox.why_not():
        return f"none, the stage skill will run and measure nothing: {why}"
    return "bubblewrap starts, and holds"


def measure_disk(root: Path, needed: float = DISK_GIB) -> str:
    """Whether there is room for one run."""
    free = shutil.disk_usage(root).free / 2**30
    detail = f"{free:.1f} GiB free; a default run takes about {needed:g}"
    if free < needed:
        raise DiskError(f"{detail}: free some, or move")
    return detail


def read_data(corpus: Path) -> str:
    """Whether the corpus is there and can be read."""
    try:
        return f"{pq.read_metadata(corpus).num_rows} files"
    except (OSError, ValueError) as error:
        cause = str(error).splitlines()[0]
        raise DataError(f"{cause}: `stylerl collect` builds it") from error


def load_base(root: Path) -> str:
    """Whether parameters obey, and the base and its tokenizer load."""
    params = config.load(root / "params.yaml")
    if params.sft.base == str(paths.BASE) and not (root / paths.BASE).exists():
        return f"preset {params.preset}; the first run makes {paths.BASE}"
    name = str(root / params.sft.base)
    tokenizer = encoding.load_tokenizer(name)
    model = models.load_causal_lm(name, tokenizer=tokenizer)
    return (
        f"preset {params.preset}; {params.sft.base} has "
        f"{model.num_parameters() / 1e6:.1f}M weights and keeps white space"
    )
