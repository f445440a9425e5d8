"""Settings and seeds side by side on one machine: what each makes of PPO.

    python benchmarks/bench_grid.py WORK --seeds 0-2 --jobs 8 \\
        default: response:ppo.credit=response \\
        "test<default:evaluate.split=test;skill.tests=humaneval"

Run it in a repository where artifacts/filter and artifacts/base are at hand.
An entry is NAME[<PARENT]:KEY=VALUE[;KEY=VALUE...]: a parameter of ppo, skill
or evaluate, or a constant by its module, such as
stylerl.ppo.length.ANSWER.  It runs the stages from the first that a
changed section belongs to, and takes what comes before from its parent, or
from the seed's own SFT and reward models, which all entries share.  Settings
are chosen on validation prompts, so entries evaluate on these and leave
`skill` out unless they say otherwise.

Each job is given its share of the cores, in the order of the entries, which
name a parent before its children.  What is in WORK already is not
made again, so that without entries the table alone is printed.
WORK/grid.jsonl gets a line for each entry and seed as it ends.  A second table
has what the last updates sampled, of entries that were not evaluated too.
DVC, Prefect and MLflow are not asked.
"""

import argparse
import datetime
import json
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

import pandas as pd

from stylerl import config, storage
from stylerl.pipeline import machine

ROOT = Path(__file__).resolve().parent.parent
SHARED = ("label", "sft", "reward")  # of a seed, for all its entries
OWN = ("ppo", "skill", "evaluate")  # of an entry
FIRST = {"evaluate": "evaluate", "skill": "skill"}  # others begin with ppo
CHOICE = {
    "evaluate.split": "valid",
    "skill.tests": "none",
}
GAINS = {
    "compliance": "gain",
    "standardised_compliance": "at SFT's lengths",
    "non_compliance_cut": "cut",
    "residual_compliance": "after fixer",
    "standardised_residual": "the same at SFT's lengths",
    "residual_cut": "cut after fixer",
    "resolved_names": "names",
    "ruff": "ruff",
    "skill": "skill",
    "joint": "joint",
}
METRICS = ("ppo", "skill", "evaluate", "reward")
SHARES = ("compliance", "parse_rate", "eos_rate")  # of rollouts
# Sets constants of modules, then runs a stage as its command does.
RUN = """
import importlib, json, runpy, sys
stage, constants = sys.argv[1], json.loads(sys.argv[2])
for name, code in constants.items():
    module, _, constant = name.rpartition(".")
    module = importlib.import_module(module)
    setattr(module, constant, eval(code, vars(module)))
runpy.run_module(f"tasks.{stage}", run_name="__main__")
"""


class Entry(NamedTuple):
    """A point of the grid."""

    name: str
    parent: str  # an entry, or "" for the seed's shared stages
    changes: dict[str, str]

    @property
    def stages(self) -> tuple[str, ...]:
        """What it runs."""
        sections = {key.partition(".")[0] for key in self.changes}
        if not self.parent:
            return OWN
        first = min(OWN.index(FIRST.get(each, "ppo")) for each in sections)
        return OWN[first:]


def entry(text: str) -> Entry:
    """Read NAME[<PARENT]:KEY=VALUE;..."""
    head, _, changes = text.partition(":")
    name, _, parent = head.partition("<")
    pairs = [each.partition("=") for each in changes.split(";") if each]
    for key, _, _ in pairs:
        if (section := key.partition(".")[0]) not in (*OWN, "stylerl"):
            raise argparse.ArgumentTypeError(
                f"an entry must change {', '.join(OWN)} or a constant of "
                f"stylerl; {key} is of {section}, which all entries share: "
                "give it by --set"
            )
    return Entry(name, parent, {key: value for key, _, value in pairs})


class Cores:
    """The machine's cores in equal shares, one for each job."""

    def __init__(self, jobs: int) -> None:
        cores = sorted(os.sched_getaffinity(0))
        each = max(1, len(cores) // jobs)
        self.free: SimpleQueue[list[int]] = SimpleQueue()
        for job in range(jobs):
            begin = job * each % len(cores)
            self.free.put(cores[begin : begin + each])

    def run(self, command: list[str], folder: Path, log: Path) -> float:
        """Run a command on a share; its seconds.

        Raises:
            CalledProcessError: it failed.
        """
        mine = self.free.get()
        begin = time.monotonic()
        try:
            with log.open("wb") as out:
                subprocess.run(
                    ["taskset", "-c", ",".join(map(str, mine)), *command],
                    cwd=folder,
                    env={
                        **os.environ,
                        "PYTHONPATH": f"{ROOT}:{os.getenv('PYTHONPATH', '')}",
                        "OMP_NUM_THREADS": str(len(mine)),
                        "STYLERL_STAGE_KEY": "grid",
                    },
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    check=True,
                )
        finally:
            self.free.put(mine)
        return time.monotonic() - begin


class Grid:
    """A folder of runs, and who works on them."""

    def __init__(
        self, work: Path, jobs: int, changes: Mapping[str, str]
    ) -> None:
        self.work = work.resolve()
        self.changes = changes
        self.jobs = jobs
        self.cores = Cores(jobs)
        self.lock = threading.Lock()

    def folder(self, seed: int, name: str = "") -> Path:
        """Where a seed's shared stages, or an entry's, are run."""
        return self.work / f"seed-{seed}{name and '-' + name}"

    def shared(self, seed: int) -> None:
        """Label, tune and train reward models."""
        folder = self.folder(seed)
        changes = {"seed": str(seed), **self.changes}
        prepare(folder, changes, ROOT, ("filter", "base"))
        for stage in SHARED:
            self.stage(folder, stage, {})

    def entry(self, seed: int, point: Entry) -> None:
        """Run an entry, and keep what came of it."""
        folder = self.folder(seed, point.name)
        source = self.folder(seed, point.parent)
        constants = {
            key: value
            for key, value in point.changes.items()
            if key.startswith("stylerl.")
        }
        changes = point.changes if point.parent else CHOICE | point.changes
        before = ("filter", "base", *SHARED, *OWN)
        before = before[: before.index(point.stages[0])]
        prepare(
            folder,
            {k: v for k, v in changes.items() if k not in constants},
            source,
            before,
        )
        begin = time.time()
        for stage in point.stages:
            if stage == "skill" and skipped(folder):
                continue
            self.stage(folder, stage, constants)
        kept = {
            "name": point.name,
            "seed": seed,
            "changes": point.changes,
            "parent": point.parent,
            "date": str(datetime.date.today()),
            "machine": machine_name(),
            "seconds": round(time.time() - begin),
            **{
                name: storage.read_json(file)
                for name in METRICS
                if (file := folder / f"metrics/{name}.json").exists()
            },
        }
        with self.lock, (self.work / "grid.jsonl").open("a") as lines:
            lines.write(json.dumps(kept) + "\n")

    def stage(
        self, folder: Path, stage: str, constants: dict[str, str]
    ) -> None:
        """Run one stage in a folder, unless it is done."""
        done = folder / f"{stage}.done"
        if done.exists():
            return
        command = [sys.executable, "-c", RUN, stage, json.dumps(constants)]
        log = folder / f"{stage}.log"
        try:
            spent = self.cores.run(command, folder, log)
        except subprocess.CalledProcessError:
            lines = log.read_text(errors="replace").splitlines()
            tail = "\n".join(line for line in lines[-9:] if "%|" not in line)
            print(f"{folder.name}: {stage} failed:\n{tail}", flush=True)
            raise
        done.touch()
        print(f"{folder.name}: {stage} {spent:.0f} s", flush=True)


def prepare(
    folder: Path,
    changes: Mapping[str, str],
    source: Path,
    stages: Iterable[str],
) -> None:
    """A folder with the parameters of another, some changed, and links to
    what stages left there."""
    for name in ("artifacts", "metrics"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    values = {
        key: config.read_yaml(text, key) for key, text in changes.items()
    }
    params = config.override(config.load(source / "params.yaml"), values)
    (folder / "params.yaml").write_text(config.render(params))
    (folder / "dvc.yaml").write_text((ROOT / "dvc.yaml").read_text())
    for stage in stages:
        for made in (f"artifacts/{stage}", f"metrics/{stage}.json"):
            link, target = folder / made, source / made
            if target.exists() and not link.exists():
                link.symlink_to(target.resolve())
    preferences = folder / "preferences.jsonl"
    preferences.touch()


def skipped(folder: Path) -> bool:
    """Whether the stage skill has nothing to do, as it then says itself."""
    if config.load(folder / "params.yaml").skill.tests != "none":
        return False
    said = {"problems": 0, "why_not": "skill.tests is none"}
    storage.write_json(folder / "metrics/skill.json", said)
    return True


def machine_name() -> str:
    """GPU and CPU."""
    import torch

    found = f"{machine.cpu()}, {os.cpu_count()} cores"
    if torch.cuda.is_available():
        found = f"{torch.cuda.get_device_name()}; {found}"
    return found


def run(grid: Grid, seeds: list[int], points: list[Entry]) -> bool:
    """Every entry of every seed, in their order; it waits for its parent."""
    sound = True
    with ThreadPoolExecutor(grid.jobs) as pool:
        futures: dict[tuple[int, str], Future[None]] = {}

        def follow(seed: int, point: Entry) -> None:
            futures[seed, point.parent].result()
            grid.entry(seed, point)

        for seed in seeds:
            futures[seed, ""] = pool.submit(grid.shared, seed)
        for point in points:
            for seed in seeds:
                futures[seed, point.name] = pool.submit(follow, seed, point)
        for (seed, name), future in futures.items():
            if error := future.exception():
                sound = False
                kind = type(error).__name__
                print(f"seed {seed}, {name or 'shared'}: {kind}")
    return sound


def table(work: Path) -> str:
    """Means over seeds; gains are PPO less SFT."""
    lines = (work / "grid.jsonl").read_text().splitlines()
    rows = pd.DataFrame(row(json.loads(line)) for line in lines)
    rows = rows.drop_duplicates(["name", "seed"], keep="last")
    by_name = rows.groupby("name", sort=False)
    means = by_name.mean(numeric_only=True)
    means["seed"] = by_name.size()
    return means.rename(columns={"seed": "seeds"}).to_string(
        float_format="{:.1f}".format
    )


def rollouts(work: Path) -> str:
    """What the last updates of each run sampled; shares in percent."""
    rows = []
    for path in sorted(work.glob("seed-*-*/metrics/ppo.json")):
        if path.is_symlink():  # of its parent
            continue
        _, seed, name = path.parts[-3].split("-", 2)
        found = storage.read_json(path)
        shares = {key: 100 * found[key] for key in SHARES}
        others = {key: found[key] for key in ("length", "statements", "kl")}
        rows.append({"name": name, "seed": seed, **shares, **others})
    shown = pd.DataFrame(rows).sort_values(["name", "seed"])
    return shown.to_string(index=False, float_format="{:.1f}".format)


def row(kept: dict[str, Any]) -> dict[str, Any]:
    """What of a line goes into the table; shares in percent."""
    found = kept["evaluate"]
    sft, ppo, gain = (found[name] for name in ("sft", "ppo", "gain"))
    chosen = {"name": kept["name"], "seed": kept["seed"]}
    chosen["SFT"] = 100 * sft["compliance"]
    for key, head in GAINS.items():
        if key in gain:
            chosen[head] = 100 * gain[key]
    for key in ("parse_rate", "finished_rate", "resolved_names", "distinct_3"):
        if key in ppo:
            chosen[key] = 100 * ppo[key]
    chosen["median"] = ppo["length_median"]
    chosen["median SFT"] = sft["length_median"]
    # Of a model whose every completion fails to parse, some are missing.
    before, after = (m.get("statements") or math.nan for m in (sft, ppo))
    chosen["statements"] = 100 * (after / before - 1)
    chosen["kl"] = ppo["kl"]
    return chosen


def main() -> int:
    """Run the grid and print its table; 1 if something failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("entries", nargs="*", type=entry)
    parser.add_argument("--seeds", default="0-2", help="FIRST-LAST")
    parser.add_argument("--jobs", type=int, default=1, help="at once")
    parser.add_argument(
        "--set", action="append", default=[], help="KEY=VALUE of every entry"
    )
    args = parser.parse_intermixed_args()
    first, _, last = args.seeds.partition("-")
    seeds = list(range(int(first), int(last or first) + 1))
    args.work.mkdir(parents=True, exist_ok=True)
    changes = dict(each.split("=", 1) for each in args.set)
    grid = Grid(args.work, args.jobs, changes)
    sound = not args.entries or run(grid, seeds, args.entries)
    if (args.work / "grid.jsonl").exists():
        print(table(args.work))
    if any(args.work.glob("seed-*-*/metrics/ppo.json")):
        print(rollouts(args.work))
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
