"""The `stylerl` command.  `stylerl COMMAND --help` explains each command.

Exit codes: 0 it worked, 1 it worked and found something (judge, doctor),
2 the input is at fault, which one message explains, 130 interrupted.
"""

import argparse
import getpass
import sys
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from stylerl import config
from stylerl.cli import checkout, judge_command
from stylerl.errors import ConfigError, DataError, StylerlError, require
from stylerl.pipeline import server as api
from stylerl.pipeline import workspace

DATA = Path("data")
LOCK = Path("requirements.lock")
RAW = argparse.RawDescriptionHelpFormatter


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    options = parser().parse_args(arguments)
    try:
        return int(options.command(options) or 0)
    except StylerlError as error:
        print(f"stylerl: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stylerl: interrupted", file=sys.stderr)
        return 130


def parser() -> argparse.ArgumentParser:
    """Every command and option."""
    top = argparse.ArgumentParser(
        prog="stylerl",
        description="Align a code model to a style guide, with the linter "
        "in the loop.",
        epilog="A first session: stylerl doctor; stylerl collect; "
        "stylerl run --preset smoke; stylerl report",
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    _add_run(commands)
    _add_sweep(commands)
    serve = commands.add_parser(
        "serve",
        help="offer the flow as deployments of a Prefect server",
        formatter_class=RAW,
        description="Serve the deployments rlhf/full and rlhf/smoke until "
        "Ctrl-C.  A Prefect server\nis started on http://127.0.0.1:4200 "
        "where none answers, and ends with it.",
        epilog="examples, from another shell in the same folder:\n"
        "  prefect deployment run rlhf/full --watch\n"
        "  prefect deployment run rlhf/full -p preset=gpu",
    )
    serve.set_defaults(command=_serve)
    _add_collect(commands)
    judge = commands.add_parser(
        "judge", help="judge Python files: a table, or JSON lines"
    )
    judge_command.add_arguments(judge)
    judge.set_defaults(command=judge_command.run)
    _add_complete(commands)
    _add_prefer(commands)
    _add_compare(commands)
    _add_params(commands)
    doctor = commands.add_parser(
        "doctor",
        help="check machine, parameters and models before time is spent",
        description="Check packages, disk, ports, data, parameters and the "
        "configured models. Every problem comes with its remedy; the exit "
        "code is 1 when one of them would stop a run.",
    )
    doctor.set_defaults(command=_doctor)
    report = commands.add_parser(
        "report",
        help="open the last report in a browser",
        description="Print the path of the last run's HTML report, with the "
        "frontier of the last sweep, and open it in a browser where there is "
        "one.",
    )
    report.set_defaults(command=_report)
    return top


def _add_run(commands: Any) -> None:
    run = commands.add_parser(
        "run",
        help="run the whole flow; what is up to date is not run again",
        formatter_class=RAW,
        description="Run the flow: filter, label, sft, reward, ppo, "
        "evaluate. Only what has\nchanged since the last run is run again. "
        "A Prefect server is used where one\nanswers (`make serve`), and is "
        "not needed.",
        epilog="examples:\n"
        "  stylerl run                          params.yaml as it is\n"
        "  stylerl run --preset smoke           two minutes, to see it run\n"
        "  stylerl run --set ppo.kl_coef=0.1    ppo and evaluate run again",
    )
    run.add_argument(
        "--rounds",
        type=int,
        default=1,
        metavar="N",
        help="run N times, each reward model learning also from what the "
        "policy before it wrote, so the reward must hold a reward model "
        "(default: 1)",
    )
    _add_changes(run)
    run.set_defaults(command=_run)


def _add_sweep(commands: Any) -> None:
    sweep = commands.add_parser(
        "sweep",
        help="the flow at each point of a grid; KL against compliance",
        formatter_class=RAW,
        description="Run the flow's stages at each point of a grid, as child "
        "runs in MLflow, and\nprint what each reached. The same command "
        "resumes a sweep that was killed.\nparams.yaml and the artifacts are "
        "afterwards as they were; after a kill,\n`stylerl run` brings the "
        "artifacts back from the cache.",
        epilog="examples:\n"
        "  stylerl sweep                        kl_coef x learning rate\n"
        "  stylerl sweep --grid ppo.kl_coef=[0.02,0.1] "
        "--set ppo.updates=20",
    )
    sweep.add_argument(
        "--grid",
        metavar="KEY=[VALUE,...]",
        action="append",
        default=[],
        help="values of one parameter; may be repeated, for every combination",
    )
    sweep.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a value of every point, such as ppo.updates=20",
    )
    sweep.set_defaults(command=_sweep)


def _add_changes(command: argparse.ArgumentParser) -> None:
    presets = sorted(path.stem for path in config.PRESETS.glob("*.yaml"))
    command.add_argument(
        "--preset",
        metavar="NAME",
        help="write params.yaml anew from this preset: default, "
        + ", ".join(presets),
    )
    command.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="change one value of params.yaml, such as ppo.kl_coef=0.1; "
        "may be repeated",
    )


def _add_collect(commands: Any) -> None:
    collect = commands.add_parser(
        "collect",
        help="build data/ from installed packages, a hub data set or a path",
        formatter_class=RAW,
        description="Build data/, the raw Python files that every run "
        "starts from.",
        epilog="examples:\n"
        "  stylerl collect                          the pinned packages\n"
        "  stylerl collect --source path ~/project  a folder, a git "
        "checkout,\n"
        "                                           JSONL or parquet\n"
        "  stylerl collect --source hub --limit 20000\n"
        "                                           codeparrot-clean, "
        "streamed",
    )
    collect.add_argument(
        "--source",
        choices=("environment", "hub", "path"),
        default="environment",
        help="where the files come from (default: environment)",
    )
    collect.add_argument(
        "where",
        nargs="?",
        metavar="PATH|NAME",
        help="the path, or the hub data set's name",
    )
    collect.add_argument(
        "--limit",
        type=int,
        default=0,
        metavar="N",
        help="take the first N files of a hub data set (default: all)",
    )
    collect.set_defaults(command=_collect)


def _add_complete(commands: Any) -> None:
    complete = commands.add_parser(
        "complete",
        help="complete a prompt with base, SFT and PPO side by side",
        formatter_class=RAW,
        description="Complete a prompt with each model of the last run, or "
        "with those given,\nfrom the same seed, and show what the judge "
        "says of each.  Without params.yaml\nthe defaults count.",
        epilog="examples:\n"
        '  stylerl complete "def add(a, b):"\n'
        '  stylerl complete --model ~/policy "def add(a, b):"',
    )
    complete.add_argument("prompt", help="the code to complete")
    complete.add_argument(
        "--model",
        metavar="FOLDER",
        dest="models",
        type=Path,
        action="append",
        default=[],
        help="a model folder instead of the last run's; may be repeated",
    )
    complete.add_argument("--seed", type=int, default=0, metavar="N")
    complete.set_defaults(command=_complete)


def _add_prefer(commands: Any) -> None:
    prefer = commands.add_parser(
        "prefer",
        help="say which of two completions is better, to teach the reward",
        formatter_class=RAW,
        description="Show a prompt and two completions, take A, B or a tie "
        "and how sure you are,\nand save each answer at once to "
        "reward.preferences. The pairs of which the\nreward model is least "
        "sure come first; q keeps what was answered, and the\nnext session "
        "resumes there. `stylerl run` then learns from the answers.",
        epilog="examples:\n"
        "  stylerl prefer                       SFT against PPO, unnamed\n"
        "  stylerl prefer --from pairs.jsonl    pairs of your own\n"
        "  stylerl prefer --agreement           how far annotators agree",
    )
    prefer.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="FILE",
        help="pairs from JSON lines with prompt, a and b, instead of "
        "sampling the SFT and PPO models",
    )
    prefer.add_argument(
        "--pool",
        type=int,
        default=100,
        metavar="N",
        help="training prompts to sample pairs for (default: 100)",
    )
    prefer.add_argument(
        "--annotator",
        metavar="NAME",
        help="who answers (default: the user's name)",
    )
    prefer.add_argument(
        "--agreement",
        action="store_true",
        help="ask nothing; report how far the annotators agree",
    )
    prefer.set_defaults(command=_prefer)


def _add_compare(commands: Any) -> None:
    compare = commands.add_parser(
        "compare",
        help="two runs on the same prompts, with intervals",
        formatter_class=RAW,
        description="Print what the second run has over the first, for the "
        "SFT models and the\npolicies, with paired bootstrap intervals by "
        "prompt. Runs that were not\njudged alike, on the same prompts, are "
        "refused.",
        epilog="a RUN is\n"
        "  a folder with completions.parquet, such as artifacts/evaluate\n"
        "  or the id or the name of a run in MLflow (`make ui`)",
    )
    compare.add_argument("runs", nargs=2, metavar="RUN")
    compare.set_defaults(command=_compare)


def _add_params(commands: Any) -> None:
    params = commands.add_parser(
        "params",
        help="write params.yaml from a preset, or check it",
        formatter_class=RAW,
        description="Check params.yaml and print it. With --preset or --set "
        "it is written first.",
        epilog="examples:\n"
        "  stylerl params                       check and print\n"
        "  stylerl params --preset notebook     start from a preset\n"
        "  stylerl params --set seed=3          change one value",
    )
    _add_changes(params)
    params.set_defaults(command=_params)


def changes(assignments: Sequence[str]) -> dict[str, Any]:
    """`KEY=VALUE` strings as a mapping; values are read as YAML.

    Raises:
        ConfigError: one of them is not of that form.
    """
    result = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals or not key:
            raise ConfigError(
                "a setting is KEY=VALUE, such as ppo.kl_coef=0.1; got "
                f"{assignment!r}"
            )
        try:
            result[key] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise ConfigError(
                f"{key}: {value!r} is not a YAML value"
            ) from error
    return result


@contextmanager
def _prefect() -> Iterator[None]:
    """A Prefect server, which has heard everything before it goes."""
    require("pipeline", *workspace.TOOLS)
    with api.server(private=True):
        from prefect.events.worker import EventsWorker
        from prefect.logging.handlers import APILogWorker

        try:
            yield
        finally:
            APILogWorker.drain_all(timeout=10)
            EventsWorker.drain_all(timeout=10)


def _sweep(options: argparse.Namespace) -> None:
    from rich.console import Console
    from rich.markdown import Markdown

    checkout.enter("stylerl sweep")
    grid, values = changes(options.grid), changes(options.set)
    workspace.resolve(None, values)  # errors before any waiting
    with _prefect():
        from flows.sweep import sweep
        from stylerl.report.sweep import markdown
        from stylerl.results.frontier import Point

        points = sweep(grid or None, values)
    Console().print(Markdown(markdown([Point(**each) for each in points])))
    print("Its plot is in the report: stylerl report")


def _run(options: argparse.Namespace) -> None:
    from rich.console import Console

    from stylerl.report import summary
    from stylerl.report.sweep import REPORT

    checkout.enter("stylerl run")
    values = changes(options.set)
    workspace.resolve(options.preset, values)  # errors before any waiting
    with _prefect():
        from flows.rlhf import rlhf
        from flows.rounds import iterate

        if options.rounds == 1:
            metrics = rlhf(options.preset, values)
        else:
            metrics = iterate(options.rounds, options.preset, values)
    console = Console()
    console.print(summary.rich_table(metrics))
    console.print(summary.headline(metrics), summary.external_linters(metrics))
    console.print(summary.basis(metrics))
    if metrics["promotion"]:
        console.print(metrics["promotion"], highlight=False, markup=False)
    console.print(f"\nReport   {REPORT.resolve()}  (stylerl report)")
    console.print("MLflow   make ui, then http://127.0.0.1:5000")


def _serve(_: argparse.Namespace) -> None:
    from stylerl.cli import serve

    checkout.enter("stylerl serve")
    serve.run()


def _collect(options: argparse.Namespace) -> None:
    from stylerl.data import sources

    if options.where and options.source == "environment":
        raise DataError(
            f"--source environment takes no path; got {options.where!r}: say "
            "--source path or --source hub"
        )
    if options.source == "path":
        if not options.where:
            raise DataError(
                "--source path needs a path: stylerl collect --source path "
                "~/project"
            )
        files = sources.path_files(Path(options.where))
    elif options.source == "hub":
        name = options.where or sources.HUB_DATASET
        files = sources.hub_files(name, options.limit)
    else:
        # requirements.lock names the packages
        checkout.enter("stylerl collect", instead="--source path or hub")
        files = sources.environment_files(LOCK)
    count = sources.collect(files, options.source, DATA)
    print(f"{count} files in {DATA}/")


def _complete(options: argparse.Namespace) -> None:
    from rich.console import Console

    from stylerl.cli import complete_command as completion
    from stylerl.judge import Judge

    if not options.models and not workspace.PARAMS.exists():
        checkout.enter("stylerl complete", instead="--model FOLDER")
    params = workspace.settings()
    sources = {
        "base": params.sft.base,
        "SFT": "artifacts/sft",
        "PPO": "artifacts/ppo",
    }
    if options.models:
        sources = completion.labelled(options.models)
    answers = completion.complete(
        options.prompt,
        sources,
        Judge(params.judge),
        max_new_tokens=params.evaluate.max_new_tokens,
        temperature=params.evaluate.temperature,
        stop_strings=params.evaluate.stop_strings,
        seed=options.seed,
        revision=params.sft.revision,
    )
    completion.show(answers, Console())


def _prefer(options: argparse.Namespace) -> None:
    from stylerl.cli import prefer_command as prefer

    annotator = options.annotator
    if annotator is None:
        annotator = getpass.getuser()
    if options.agreement:
        prefer.agreement()
    else:
        prefer.run(annotator, options.source, options.pool)


def _compare(options: argparse.Namespace) -> None:
    from rich.console import Console

    from stylerl import storage
    from stylerl.cli import compare_command
    from stylerl.pipeline import tracking
    from stylerl.results import comparison

    def table(run: str) -> Any:
        if Path(run).is_dir():
            return storage.read_table(Path(run, tracking.COMPLETIONS))
        return tracking.completions(run)

    first, second = options.runs
    differences = comparison.compare(table(first), table(second))
    compare_command.show(differences, (first, second), Console())


def _params(options: argparse.Namespace) -> None:
    params = workspace.configure(options.preset, changes(options.set))
    print(config.render(params), end="")


def _doctor(_: argparse.Namespace) -> int:
    from rich.console import Console

    from stylerl.cli import doctor

    findings = list(doctor.examine(Path()))
    Console().print(doctor.render(findings))
    return int(any(f.status is doctor.Status.FAIL for f in findings))


def _report(_: argparse.Namespace) -> None:
    from stylerl.report import sweep as report

    checkout.enter("stylerl report")
    page = report.write_page().resolve()
    print(page)
    webbrowser.open(page.as_uri())


if __name__ == "__main__":
    sys.exit(main())
