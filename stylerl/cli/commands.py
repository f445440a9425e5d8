"""The commands of the library.  `stylerl COMMAND --help` explains each one.

options.py says how a command is declared; flows/commands.py adds those of a
checkout, `run` and `serve`.
"""

import argparse
import getpass
import tempfile
import webbrowser
from contextlib import nullcontext
from pathlib import Path

from stylerl import config
from stylerl.cli import checkout
from stylerl.cli.options import CHANGES, SET, changes, command, option, parser
from stylerl.config import paths
from stylerl.errors import DataError

__all__ = ["parser"]  # of all commands, which are registered here
DATA = Path("data")
LOCK = Path("requirements.lock")


@command(
    "collect",
    option(
        "--source",
        "SOURCE",
        "environment, hub or path (default: environment)",
        "environment",
        choices=("environment", "hub", "path"),
    ),
    option(
        "where", "PATH|NAME", "the path, or the hub data set's name", nargs="?"
    ),
    option(
        "--limit", "N", "first N files of a hub data set (default: all)", 0
    ),
)
def _collect(options: argparse.Namespace) -> None:
    """Build data/ from installed packages, a hub data set or a path.

    Build data/, the raw Python files that every run starts from.

    examples:
      stylerl collect                          the pinned packages
      stylerl collect --source path ~/project  a folder, a git checkout,
                                               JSONL or parquet
      stylerl collect --source hub --limit 20000
                                               codeparrot-clean, streamed
    """
    from stylerl.data import sources

    skipped = sources.Skipped()
    if options.where and options.source == "environment":
        raise DataError(
            f"--source environment takes no path; got {options.where!r}: say "
            "--source path or --source hub"
        )
    if options.limit and options.source != "hub":
        raise DataError(
            f"--limit is of --source hub; got {options.limit} for --source "
            f"{options.source}: leave it out"
        )
    if options.source == "path":
        if not options.where:
            raise DataError(
                "--source path needs a path: stylerl collect --source path "
                "~/project"
            )
        files = sources.path_files(Path(options.where), skipped)
    elif options.source == "hub":
        name = options.where or sources.HUB_DATASET
        files = sources.hub_files(name, options.limit, skipped)
    else:
        # requirements.lock names the packages
        checkout.enter("stylerl collect", instead="--source path or hub")
        files = sources.environment_files(LOCK)
    try:
        count = sources.collect(files, options.source, DATA)
        print(f"{count} files in {DATA}/")
    finally:
        for reason, number in skipped.most_common():
            if number:
                print(f"left out: {number} {reason}")


@command(
    "judge",
    option(
        "paths", "PATH", "a file or folder; - is standard input", nargs="+"
    ),
    option(
        "--format",
        "FORMAT",
        "table, a summary by rule, or json, one object a line "
        "(default: table)",
        "table",
        choices=("table", "json"),
    ),
    option(
        "--config",
        "FILE",
        "take rules and width from this setup.cfg, tox.ini or .flake8; for "
        "ruff from this pyproject.toml or ruff.toml",
    ),
    option(
        "--set",
        "KEY=VALUE",
        "change one value of the section judge, as judge.max_line_length=100; "
        "repeatable",
        [],
    ),
)
def _judge(options: argparse.Namespace) -> int:
    """Judge Python files: a table, or JSON lines.

    Judge Python files as flake8 (or ruff) would with noqa disabled, by
    stylerl's default rules and what is given here: params.yaml, other
    configuration files and plugins are not picked up.

    examples:
      stylerl judge src tests                  a table by rule
      stylerl judge --format json src          a JSON object a file
      stylerl judge --config setup.cfg src     by your own rules
      stylerl judge --set judge.max_line_length=100 src
      stylerl judge --set judge.plugins=[pep8-naming] \\
          --set judge.select=[E,W,F,N] src     a plugin, and its rules
      stylerl judge --set judge.engine=ruff --config pyproject.toml src

    exit code: 0 clean, 1 violations, 2 usage, unreadable input,
    or a linter that failed
    """
    from stylerl.cli import judge_command

    return judge_command.run(options)


@command(
    "complete",
    option("prompt", "PROMPT", "the code to complete"),
    option(
        "--above",
        "FILE[:LINE]",
        "the file that PROMPT stands in, at its end or above LINE: models are "
        "given as much of what is above as in training, and the verdict is "
        "one in that file",
    ),
    option(
        "--model",
        "MODEL",
        "a model's folder or its GGUF file, instead of the last run's; may "
        "be repeated",
        [],
        dest="models",
        type=Path,
    ),
    option(
        "--best-of",
        "N",
        "completions that a model draws; the one that the linter prefers is "
        "shown (default: 2)",
        2,
        choices=range(1, 17),
    ),
    option("--seed", "N", "of the sampling (default: 0)", 0),
)
def _complete(options: argparse.Namespace) -> None:
    """Complete a prompt with base, SFT and PPO side by side.

    Complete a prompt with each model of the last run, or with those given,
    from the same seed, as it grows, and show what the judge says of each:
    of two completions, since the linter's choice of two gains about as much
    as training. --best-of 1 shows what a model writes.
    Without params.yaml the defaults count.

    A GGUF file is completed by llama.cpp, without torch.

    examples:
      stylerl complete "def add(a, b):"
      stylerl complete --above app.py:42 "    def add(self, item):"
      stylerl complete --model ~/policy "def add(a, b):"
      stylerl complete --model policy/ppo-q8_0.gguf "def add(a, b):"
    """
    from rich.console import Console

    from stylerl.cli import complete_command as completion
    from stylerl.evaluation.display import MODELS
    from stylerl.judge import Judge
    from stylerl.pipeline import workspace

    if not options.models and not workspace.PARAMS.exists():
        checkout.enter("stylerl complete", instead="--model MODEL")
    params = workspace.settings()
    folders = paths.models(params.sft.base)
    sources = {MODELS[name]: folder for name, folder in folders.items()}
    if options.models:
        sources = completion.labelled(options.models)
    console = Console()
    with completion.growing(console) as watch:
        answers = completion.complete(
            options.prompt,
            sources,
            Judge(params.judge),
            {**params.evaluate.sampling, "seed": options.seed},
            watch,
            options.above,
            params.sft.context,
            options.best_of,
        )
    completion.show(answers, console)
    if options.best_of > 1:
        console.print(f"Each is the linter's choice of {options.best_of}.")


@command(
    "prefer",
    option(
        "--from",
        "FILE",
        "pairs from JSON lines with prompt, a and b, instead of sampling the "
        "SFT and PPO models",
        dest="source",
        type=Path,
    ),
    option("--annotator", "NAME", "who answers (default: the user's name)"),
    option("--web", "", "ask in a browser, on this machine alone", False),
)
def _prefer(options: argparse.Namespace) -> None:
    """Say which of two completions is better, to teach the reward.

    Show a prompt and two completions, take A, B or a tie and how sure you
    are, and save each answer at once to preferences.jsonl. q keeps what was
    answered, and the next session resumes there. `stylerl run` then trains
    the pairwise reward model on them; PPO asks it where ppo.reward has
    pairwise.

    examples:
      stylerl prefer                       SFT against PPO, unnamed
      stylerl prefer --from pairs.jsonl    pairs of your own
      stylerl prefer --web                 in a browser, with the same keys
    """
    from stylerl.cli import prefer_command as prefer

    annotator = (options.annotator or "").strip()
    try:
        annotator = annotator or getpass.getuser()
    except (KeyError, OSError) as error:
        raise DataError("say who answers: --annotator NAME") from error
    prefer.run(annotator, options.source, options.web)


@command(
    "export",
    option("model", "MODEL", "a model folder, such as artifacts/ppo"),
    option("folder", "FOLDER", "where to write", type=Path),
    option(
        "--dtype",
        "TYPE",
        "bf16 or f32, or q8_0 or q4_1, which are smaller (default: bf16)",
        "bf16",
        choices=("bf16", "f32", "q8_0", "q4_1"),  # gguf_file.KINDS
    ),
)
def _export(options: argparse.Namespace) -> None:
    """Write a model as GGUF, for llama.cpp.

    Write FOLDER/NAME.gguf, of a Llama with a byte-level BPE.

    examples:
      stylerl export artifacts/ppo policy    policy/ppo.gguf
      stylerl export artifacts/ppo policy --dtype q8_0
    """
    from stylerl.export import gguf_file

    print(gguf_file.export(options.model, options.folder, options.dtype))


@command(
    "handover",
    option("folder", "FOLDER", "where to write", type=Path),
)
def _handover(options: argparse.Namespace) -> None:
    """Write what veRL needs to train with token credit.

    Write FOLDER with the prompts of PPO as parquet, params.yaml, the agent
    loop's configuration and launch.sh, which is shown; after the stage `sft`.

    examples:
      stylerl handover verl                 of artifacts/sft
      sh verl/launch.sh                     where veRL and a GPU are
    """
    from stylerl import storage
    from stylerl.data import places, prompts
    from stylerl.engines import handover
    from stylerl.pipeline import workspace

    params = workspace.settings()
    labels = storage.read_table(paths.LABELS)
    texts = {
        split: prompts.unread_prompts(labels, split, params.seed)
        for split in handover.FILES
    }
    texts["train"] = list(params.ppo.prompt_texts) or texts["train"]
    where = places.places_of_labels(paths.FILTER, labels)
    print(handover.write(options.folder, paths.SFT, params, texts, where))


@command(
    "push",
    option("model", "MODEL", "a model folder, such as artifacts/ppo"),
    option(
        "target", "TARGET", "./FOLDER, or OWNER/NAME on the Hugging Face hub"
    ),
    option("--public", "", "make a new repository public", False),
)
def _push(options: argparse.Namespace) -> None:
    """Copy a model to a folder or to the hub, with its card.

    Write what transformers loads, and a README.md with what the last run
    measured of the model: scores, goals and guards, judge, data, licences
    and limits. A repository that is made is private; HF_ENDPOINT names
    another hub. A model that is not the last run's gets no scores.

    examples:
      stylerl push artifacts/ppo ./policy
      hf auth login; stylerl push artifacts/ppo me/policy
    """
    from stylerl.cli import push_command

    where = push_command.run(
        Path(options.model), options.target, options.public
    )
    print(f"{where}, with its card README.md")


@command(
    "evaluate",
    option(
        "models", "MODEL", "a folder, or a GGUF file", nargs="+", type=Path
    ),
    option("--to", "FOLDER", "where it writes", type=Path, required=True),
    SET,
)
def _evaluate(options: argparse.Namespace) -> None:
    """Measure any models on the evaluation's prompts.

    Let each model complete the prompts that the section evaluate of
    params.yaml describes, under the same seeds, and print what each has over
    the first, with paired intervals and guards; and finish HumanEval's
    problems, where a sandbox starts (skill.tests=none runs nothing). A MODEL
    is a folder in the hub's format, or a GGUF file that `stylerl export`
    wrote, unpacked. params.yaml stays as it is; the stage filter must have
    run.

    examples:
      stylerl evaluate --to seen artifacts/sft artifacts/ppo ~/other
      stylerl evaluate --to seen --set evaluate.split=valid ~/a ~/b
      stylerl evaluate --to seen artifacts/ppo policy/ppo-q8_0.gguf
    """
    from stylerl.cli import evaluate_command
    from stylerl.pipeline import workspace

    params = config.override(workspace.settings(), changes(options.set))
    with tempfile.TemporaryDirectory() as scratch:
        text = evaluate_command.run(
            options.models, params, options.to, Path(scratch)
        )
    print(text, end="")


@command("params", *CHANGES)
def _params(options: argparse.Namespace) -> None:
    """Write params.yaml from a preset, or check it.

    Check params.yaml and print it. With --preset or --set it is written
    first.

    examples:
      stylerl params                       check and print
      stylerl params --preset notebook     start from a preset
      stylerl params --set seed=3          change one value
    """
    from stylerl.pipeline import workspace

    changed = changes(options.set)
    changing = (options.preset or changed) and Path(".dvc").is_dir()
    with workspace.exclusive() if changing else nullcontext():
        params = workspace.configure(options.preset, changed)
    print(config.render(params), end="")


@command("doctor")
def _doctor(_: argparse.Namespace) -> int:
    """Check machine, parameters and models before time is spent.

    Check torch, sandbox, disk, data, parameters and the base model.
    Every problem comes with its remedy; the exit code is 1 when one of them
    would stop a run.
    """
    from stylerl.cli import doctor

    return doctor.run(Path())


@command("report")
def _report(_: argparse.Namespace) -> None:
    """Open the last report in a browser.

    Print the path of the last run's HTML report, and open it in a browser
    where there is one.
    """
    from stylerl.report import summary

    checkout.enter("stylerl report")
    if not summary.REPORT.exists():
        raise DataError(
            f"{summary.REPORT} does not exist; `stylerl run` writes it"
        )
    page = summary.REPORT.resolve()
    print(page)
    webbrowser.open(page.as_uri())
