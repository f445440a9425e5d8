"""What a GPU should prove, in one command of nine minutes.

    make gpu       # or: python benchmarks/bench_gpu.py [--toy] [--seconds N]

Needs a checkout, pytest, torch, transformers, accelerate, pandas and
pyarrow, and no network: what else it imports comes as wheels (`make wheels`).
Prefect, DVC and MLflow are not needed.  Three parts, each in processes of its
own:

1. tests: those that run on whatever device there is (mark `device`), in the
   files that need the trainer alone;
2. trainer: PPO of models in the shape of SmolLM2-135M and of
   Qwen2.5-Coder-0.5B, random weights, 64 rows of 64 + 256 tokens, beside
   TRL's GRPO on as many episodes.  The first update warms up and is not
   counted;
3. pipeline: the stages filter, label, sft, reward and ppo of params.yaml on
   the base, where data/ and artifacts/base are at hand.  They write
   artifacts/ and metrics/ of this checkout, and DVC does not know.

What does not fit into the seconds is left out and named; where something
failed, the command ends with 1.  The floor is the least that an update
computes: a forward pass over each episode to sample it, two to score it, and
three for every epoch, with two operations a weight and token, the output
embedding on responses only; its share, the time this would take at the speed
of a matrix product.  `--toy` is for a CPU: tiny models, and no part 3.
Results go to benchmarks/results/gpu.md, or where --out says, which --toy
needs.
"""

import argparse
import datetime
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rates import hardware, matmul_rate, peak_gib

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS = HERE / "results" / "gpu.md"
TESTS = ("tests/unit/test_device.py",)
STAGES = ("filter", "label", "sft", "reward", "ppo")
NEEDED = ("data/corpus.parquet", "artifacts/base")  # by the stages
UPDATES = 3  # counted, after one that warms up
EPOCHS = 2


class Size(NamedTuple):
    """How large the model is, and how much of it is asked."""

    kind: str  # llama or qwen2
    layers: int
    width: int
    heads: int
    key_heads: int
    inner: int  # of the feed-forward part
    vocabulary: int
    rows: int = 64  # 8 of a prompt
    prompt: int = 64
    new: int = 256


SIZES = {
    "smollm2-135m": Size("llama", 30, 576, 9, 3, 1536, 49_152),
    "qwen2.5-0.5b": Size("qwen2", 24, 896, 14, 2, 4864, 151_936),
}
TOYS = {
    name: size._replace(
        layers=2,
        width=32,
        heads=2,
        key_heads=2,
        inner=64,
        vocabulary=512,
        rows=8,
        prompt=8,
        new=8,
    )
    for name, size in SIZES.items()
}


def model_of(size: Size) -> Any:
    """The architecture with random weights; it never ends a text."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    model: Any = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(
            size.kind,
            vocab_size=size.vocabulary + 2,  # eos and pad
            num_hidden_layers=size.layers,
            hidden_size=size.width,
            num_attention_heads=size.heads,
            num_key_value_heads=size.key_heads,
            intermediate_size=size.inner,
            max_position_embeddings=size.prompt + size.new,
            tie_word_embeddings=True,
        )
    )
    return endless(model, size.vocabulary)


def endless(model: Any, words: int) -> Any:
    """The model with a bias that keeps it from the tokens beyond `words`."""
    import torch

    head = model.get_output_embeddings()
    bias = torch.zeros(head.weight.shape[0])
    bias[words:] = -1e4
    head.bias = torch.nn.Parameter(bias, requires_grad=False)
    return model


def words(vocabulary: int) -> Any:
    """A tokenizer of a word a token; eos and pad come after the words."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    known = {f"w{i}": i for i in range(vocabulary)}
    known |= {"<eos>": vocabulary, "<pad>": vocabulary + 1}
    tokenizer = Tokenizer(models.WordLevel(known, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<pad>"
    )


def prompts_of(size: Size, count: int) -> list[str]:
    """Texts of one token less, which bos precedes."""
    return [
        " ".join(f"w{(7 * i + j) % 500}" for j in range(size.prompt - 1))
        for i in range(count)
    ]


def score(completion: str) -> float:
    """A reward that costs nothing."""
    return float(len(set(completion)) % 7)


def run_ours(size: Size) -> dict[str, float]:
    """Mean seconds by phase of an update of ours."""
    sys.path.insert(0, str(ROOT))
    from stylerl.ppo import PPOConfig, PPOTrainer, by_reward

    tokenizer = words(size.vocabulary)
    tokenizer.bos_token = tokenizer.eos_token
    trainer = PPOTrainer(
        PPOConfig(
            updates=UPDATES + 1,
            batch_size=size.rows,
            num_minibatches=1,
            group_size=8,
            update_epochs=EPOCHS,
            pass_tokens=8192,
            lora_rank=0,
            max_new_tokens=size.new,
            learning_rate=1e-6,
            precision="bf16",
            checkpoint_every=0,
        ),
        policy=model_of(size),
        tokenizer=tokenizer,
        grader=by_reward(lambda _, completions: [*map(score, completions)]),
        prompts=prompts_of(size, 4 * size.rows),
    )
    found = []
    for step in trainer:
        assert step.metrics["response/length"] == size.new
        found.append(dict(step.seconds))
    return {
        phase: sum(each[phase] for each in found[1:]) / UPDATES
        for phase in found[0]
    }


def run_trl(size: Size) -> dict[str, float]:
    """Mean seconds of an update of TRL's GRPO, whole."""
    import tempfile

    import datasets
    import torch
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    marks: list[float] = []

    class Clock(TrainerCallback):
        """When each optimiser step had ended."""

        def on_step_end(self, *_: Any, **__: Any) -> None:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            marks.append(time.perf_counter())

    tokenizer = words(size.vocabulary)
    tokenizer.padding_side = "left"
    texts = prompts_of(size, 4 * size.rows)
    with tempfile.TemporaryDirectory() as folder:
        model_of(size).save_pretrained(folder)  # the reference is read anew
        trainer = GRPOTrainer(
            model=folder,
            reward_funcs=lambda completions, **_: [*map(score, completions)],
            args=GRPOConfig(
                output_dir=folder,
                per_device_train_batch_size=size.rows,
                num_generations=8,
                num_iterations=EPOCHS,
                max_completion_length=size.new,
                generation_kwargs={"min_new_tokens": size.new},
                max_steps=(UPDATES + 1) * EPOCHS,
                learning_rate=1e-6,
                beta=0.05,
                bf16=True,
                use_cpu=not torch.cuda.is_available(),
                report_to="none",
                save_strategy="no",
                logging_strategy="no",
                disable_tqdm=True,
            ),
            processing_class=tokenizer,
            train_dataset=datasets.Dataset.from_dict({"prompt": texts}),
            callbacks=[Clock()],
        )
        trainer.train()
    spent = marks[-1] - marks[EPOCHS - 1]
    return {"all": spent / UPDATES}


def child(case: str, toy: bool) -> None:
    """Run one case of the trainer; print its figures as JSON."""
    import torch

    side, name = case.split(":")
    size = (TOYS if toy else SIZES)[name]
    found = (run_ours if side == "ours" else run_trl)(size)
    found.setdefault("all", sum(found.values()))
    found["gib"] = peak_gib()
    found["rate"] = matmul_rate(torch.bfloat16)
    print(json.dumps(found))


def block(size: Size) -> int:
    """Weights of the matrices of one layer."""
    keys = size.width * size.key_heads // size.heads  # as wide are the values
    columns = 2 * size.width + 2 * keys + 3 * size.inner
    return size.width * columns


def floor(size: Size) -> float:
    """What an update computes at the least, operations."""
    body = block(size) * size.layers * (size.prompt + size.new)
    head = size.vocabulary * size.width * size.new
    return 2.0 * (body + head) * (1 + 2 + 3 * EPOCHS) * size.rows


class Clock:
    """What is left of the seconds, and whether something failed in them."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds
        self.failed = False

    @property
    def left(self) -> float:
        """Seconds until the end, at least none."""
        return max(0.0, self.end - time.monotonic())


def run(command: list[str], clock: Clock) -> tuple[str | None, str]:
    """Run a command within the time; what failed, if anything, and stdout.

    What has not ended in time may hang, and has failed; what could not begin
    has not.
    """
    if clock.left < 10:
        return "no time was left", ""
    path = os.pathsep.join(filter(None, [str(ROOT), os.getenv("PYTHONPATH")]))
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=clock.left,
        )
    except subprocess.TimeoutExpired:
        clock.failed = True
        return f"did not end in time: {' '.join(command[1:])}", ""
    if done.returncode:
        clock.failed = True
        sys.stderr.write(done.stdout[-2000:] + done.stderr[-4000:])
        lines = [*done.stdout.splitlines(), *done.stderr.splitlines()]
        return f"failed: {lines[-1] if lines else done.returncode}", ""
    return None, done.stdout


def tests(clock: Clock) -> Iterator[str]:
    """Part 1.  To collect other files, Prefect and others are imported."""
    options = ["-q", "-m", "device", "-p", "no:cacheprovider", *TESTS]
    begin = time.monotonic()
    fault, out = run([sys.executable, "-m", "pytest", *options], clock)
    said = fault or out.strip().splitlines()[-1].strip("= ")
    yield from ("## Tests of the device", "", f"- `pytest -m device`: {said}")
    yield f"- {time.monotonic() - begin:.0f} seconds with the imports"


def trainers(clock: Clock, toy: bool) -> Iterator[str]:
    """Part 2."""
    yield from ("", "## The trainer", "")
    yield (
        "| model | trainer | seconds: generate / judge / score / update | "
        "all | episodes a second | peak GiB | TFLOP/s of a matrix product | "
        "share of the floor |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    faults = []
    for name, size in (TOYS if toy else SIZES).items():
        for side in ("ours", "trl"):
            case = f"{side}:{name}"
            command = [sys.executable, str(Path(__file__)), "--case", case]
            fault, out = run([*command, *(["--toy"] if toy else [])], clock)
            if fault:
                faults.append(f"- {name}, {side}: {fault}")
                continue
            found = json.loads(out.splitlines()[-1])
            share = floor(size) / found["rate"] / found["all"]
            phases = " / ".join(
                f"{found[phase]:.2f}" if phase in found else "-"
                for phase in ("generate", "judge", "score", "update")
            )
            yield (
                f"| {name} | {'ours' if side == 'ours' else 'TRL GRPO'} | "
                f"{phases} | {found['all']:.2f} | "
                f"{size.rows / found['all']:.1f} | {found['gib']:.1f} | "
                f"{found['rate'] / 1e12:.2f} | {share:.1%} |"
            )
    yield from faults and ["", *faults]


def pipeline(clock: Clock, toy: bool) -> Iterator[str]:
    """Part 3."""
    yield from ("", "## The pipeline", "")
    lacking = [path for path in NEEDED if not (ROOT / path).exists()]
    if toy or lacking:
        named = f"there is no {' and no '.join(lacking)}"
        yield f"Left out: {'--toy has no such part' if toy else named}."
        return
    yield from ("| stage | seconds |", "|---|---|")
    faults = []
    for stage in STAGES:
        begin = time.monotonic()
        fault, _ = run([sys.executable, "-m", f"tasks.{stage}"], clock)
        if fault:
            faults.append(f"- {stage}: {fault}")
            break
        yield f"| {stage} | {time.monotonic() - begin:.0f} |"
    metrics = ROOT / "metrics" / "ppo.json"
    yield ""
    yield from faults or [f"Last updates: `{metrics.read_text().strip()}`"]


def main() -> int:
    """Run the parts and write the page, as far as it came; 1: one failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--toy", action="store_true", help="at a CPU's size")
    parser.add_argument("--seconds", type=float, default=530)
    parser.add_argument("--out", type=Path, help=f"default: {RESULTS}")
    parser.add_argument("--only", choices=("tests", "trainer", "pipeline"))
    parser.add_argument("--case", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.case:
        child(args.case, args.toy)
        return 0
    if args.toy and not args.out:
        parser.error("--toy needs --out: its figures are not a GPU's")
    out = args.out or RESULTS
    clock = Clock(args.seconds)
    lines = [
        "# On a GPU",
        "",
        f"{datetime.date.today()}, {hardware()}: "
        f"`python benchmarks/bench_gpu.py {shlex.join(sys.argv[1:])}`",
        "",
    ]
    parts = {
        "tests": tests(clock),
        "trainer": trainers(clock, args.toy),
        "pipeline": pipeline(clock, args.toy),
    }
    for name, part in parts.items():
        for line in part if args.only in (None, name) else ():
            print(line, flush=True)
            lines.append(line)
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text("\n".join(lines) + "\n")
    return int(clock.failed)


if __name__ == "__main__":
    sys.exit(main())
