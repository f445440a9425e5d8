"""Preflight checks: what would go wrong, said before it does.

A check never changes anything and never needs the network.  What the trainer
and the stages check by themselves before they start is not checked here.
"""

import importlib.metadata
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import torch
from packaging.requirements import Requirement

from stylerl import config, storage
from stylerl.cli.findings import Finding, Status
from stylerl.errors import ConfigError, DataError, ModelError
from stylerl.lm import encoding, models
from stylerl.skill import sandbox

DISK_GIB = 3.0  # data/, artifacts, DVC's cache and the MLflow store
EXTRAS = ("train", "pipeline", "sandbox")  # of pyproject.toml
# What a tokenizer must give back.
WHITESPACE = "def f(x):\n\tif x:\n\t\treturn  x \n\n\n    # é 漢\r\n\x0c  "
PORTS = {5000: "MLflow UI", 4200: "Prefect server"}


def examine(root: Path) -> Iterator[Finding]:
    """Check the machine, then what is in `root`, one by one.

    Outside a checkout nothing is amiss where there are no data, parameters
    or pipeline: judge, trainer and completions need none of them.
    """
    checkout = (root / "dvc.yaml").exists()
    yield check_packages(needed="pipeline" if checkout else "")
    yield check_torch()
    yield check_git()
    yield check_sandbox()
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
            name = str(root / config.load(path).sft.base)
            model = check_model(name)
            yield model
            if model.status is not Status.FAIL:
                yield check_tokenizer(name)
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
