"""Our PPO trainer against TRL 1.12's, the last that there was: same work.

    python benchmarks/bench_ppo.py [--shape small|large] [--updates N]
                                   [--threads N] [--clock wall|cpu]
                                   [--trl-python PATH]

Both train a GPT-2 with random weights: prompts of 32 tokens, exactly 64 new
tokens, 4 epochs.  `small` is 6 layers of 384 with a vocabulary of 8,192 and
32 episodes a batch, `large` 12 layers of 768 with 32,768 and 8 episodes.
First fp32 on both sides, then each side's bf16.  TRL runs in a virtual
environment of its own, which the script makes under build/trl; each run is a
process of its own, and the two sides take turns.  The first update warms up
and is not counted.  On a machine that does something else as well, take one
thread and `--clock cpu`: seconds of CPU time.

TRL has to be given a reward model and a value model.  Its reward model is one
layer of 64, so that next to nothing of its time is that; its value model
has the policy's shape, as its documentation has it.  Our reward function
counts letters.  The floor is what the update must compute at the least: 6
floating-point operations a parameter and token, over all epochs.  Results go
to benchmarks/results/ppo.md.
"""

import argparse
import datetime
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "ppo.md"
VENV = HERE.parent / "build" / "trl"
PACKAGES = (
    "trl==1.12.0",
    "torch==2.13.0",
    "transformers==5.23.0",
    "accelerate==1.15.0",
    "datasets==5.2.0",
)
PROMPT, NEW, EPOCHS = 32, 64, 4


class Shape(NamedTuple):
    """A model and how much of it is asked."""

    layers: int
    width: int
    heads: int
    vocabulary: int
    batch: int


SHAPES = {
    "small": Shape(6, 384, 6, 8192, 32),
    "large": Shape(12, 768, 12, 32768, 8),
}


def gpt2(shape: Shape) -> Any:
    """A GPT-2 with random weights; no token of it ends a text."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=shape.vocabulary,
        n_layer=shape.layers,
        n_embd=shape.width,
        n_head=shape.heads,
        n_positions=128,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=None,
        eos_token_id=None,
    )
    return GPT2LMHeadModel(config)


def words(vocabulary: int) -> Any:
    """A tokenizer of a word a token; eos and pad are beyond the model."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    known = {f"w{i}": i for i in range(vocabulary)}
    known |= {"<eos>": vocabulary, "<pad>": vocabulary + 1}
    tokenizer = Tokenizer(models.WordLevel(known, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<pad>"
    )


def run_ours(shape: Shape, updates: int, minibatches: int, bf16: bool) -> Any:
    """Seconds by phase of each update, ours."""
    sys.path.insert(0, str(HERE.parent))
    from stylerl.ppo import PPOConfig, PPOTrainer

    model = gpt2(shape)
    model.config.activation_function = "gelu_new"
    tokenizer = words(shape.vocabulary)
    tokenizer.bos_token = "w1"
    trainer = PPOTrainer(
        PPOConfig(
            updates=updates,
            batch_size=shape.batch,
            minibatches=minibatches,
            epochs=EPOCHS,
            micro_batch=8,
            max_new_tokens=NEW,
            temperature=0.7,
            learning_rate=3e-6,
            precision="bf16" if bf16 else "fp32",
            checkpoint_every=0,
        ),
        policy=model,
        tokenizer=tokenizer,
        reward=lambda p, c: [float(len(set(text)) % 7) for text in c],
        prompts=[
            " ".join(f"w{(7 * i + j) % 1000}" for j in range(PROMPT - 1))
            for i in range(shape.batch * 2)
        ],
    )
    found = []
    for step in trainer:
        assert step.statistics["response/length"] == NEW
        assert step.rollouts.starts.eq(PROMPT).all()
        seconds = dict(step.seconds)
        seconds["score"] += seconds.pop("judge")
        found.append(seconds)
    return found


def run_trl(shape: Shape, updates: int, minibatches: int, bf16: bool) -> Any:
    """Seconds by phase of each update, TRL's."""
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
    import datasets
    import numpy
    from transformers import GPT2Config, GPT2ForSequenceClassification
    from trl.experimental.ppo import PPOConfig, PPOTrainer, ppo_trainer

    tokenizer = words(shape.vocabulary)

    def scorer(layers: int, width: int, heads: int) -> Any:
        config = GPT2Config(
            vocab_size=shape.vocabulary,
            n_layer=layers,
            n_embd=width,
            n_head=heads,
            n_positions=128,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            num_labels=1,
            pad_token_id=tokenizer.pad_token_id,
        )
        return GPT2ForSequenceClassification(config)

    policy = gpt2(shape)
    policy.generation_config.eos_token_id = None
    policy.generation_config.pad_token_id = 0
    rows = [
        {"input_ids": [(7 * i + j) % 1000 for j in range(PROMPT)]}
        for i in range(shape.batch * (updates + 1))
    ]
    marks: list[tuple[str, float]] = []

    def mark(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            marks.append((name, time.perf_counter()))
            return result

        return call

    ppo_trainer.batch_generation = mark(
        "generated", ppo_trainer.batch_generation
    )
    numpy.random.permutation = mark("epoch", numpy.random.permutation)
    with tempfile.TemporaryDirectory() as folder:
        trainer = PPOTrainer(
            PPOConfig(
                output_dir=folder,
                per_device_train_batch_size=shape.batch // minibatches,
                gradient_accumulation_steps=1,
                num_mini_batches=minibatches,
                num_ppo_epochs=EPOCHS,
                local_rollout_forward_batch_size=shape.batch,
                total_episodes=shape.batch * updates,
                response_length=NEW,
                temperature=0.7,
                learning_rate=3e-6,
                bf16=bf16,
                use_cpu=True,
                num_sample_generations=0,
                report_to="none",
                save_strategy="no",
                disable_tqdm=True,
            ),
            processing_class=tokenizer,
            model=policy,
            ref_model=gpt2(shape),
            reward_model=scorer(1, 64, 1),
            value_model=scorer(shape.layers, shape.width, shape.heads),
            train_dataset=datasets.Dataset.from_list(rows),
            eval_dataset=datasets.Dataset.from_list(rows[:2]),
        )
        trainer.log = mark("logged", lambda metrics: None)
        marks.append(("logged", time.perf_counter()))
        trainer.train()
    return phases(marks)


def phases(marks: list[tuple[str, float]]) -> list[dict[str, float]]:
    """Marks between two "logged" to seconds by phase.

    "generated" ends generation, the first "epoch" ends scoring.
    """
    found = []
    begin = marks[0][1]
    generated = first = 0.0
    for name, at in marks[1:]:
        if name == "generated":
            generated, first = at, 0.0
        elif name == "epoch" and not first:
            first = at
        elif name == "logged":
            found.append(
                {
                    "generate": generated - begin,
                    "score": first - generated,
                    "update": at - first,
                }
            )
            begin = at
    return found


def child(args: argparse.Namespace) -> None:
    """Run one side in this process; print the result as JSON."""
    import torch

    torch.set_num_threads(args.threads)
    if args.clock == "cpu":
        time.perf_counter = time.process_time
    side = run_ours if args.side == "ours" else run_trl
    updates = side(
        SHAPES[args.shape], args.updates + 1, args.minibatches, args.bf16
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({"updates": updates[1:], "gib": peak}))


def measure(
    python: Path, args: argparse.Namespace, side: str, case: dict[str, Any]
) -> dict[str, float]:
    """Run one side in a process of its own; means over its updates."""
    command = [
        *(str(python), str(Path(__file__).resolve())),
        *("--side", side, "--shape", args.shape),
        *("--updates", str(args.updates), "--threads", str(args.threads)),
        *("--clock", args.clock),
        *("--minibatches", str(case["minibatches"])),
        *(["--bf16"] if case["bf16"] else []),
    ]
    env = {**os.environ, "OMP_NUM_THREADS": str(args.threads)}
    done = subprocess.run(
        command, capture_output=True, text=True, env=env, check=False
    )
    if done.returncode:
        raise SystemExit(f"{side} failed:\n{done.stderr[-3000:]}")
    result = json.loads(done.stdout.strip().splitlines()[-1])
    updates = result["updates"]
    means = {
        phase: sum(each[phase] for each in updates) / len(updates)
        for phase in ("generate", "score", "update")
    }
    total = sum(means.values())
    return {
        **means,
        "all": total,
        "episodes": SHAPES[args.shape].batch / total,
        "gib": result["gib"],
    }


def floor_flop(shape: Shape) -> float:
    """6 operations a parameter and token, over all epochs of an update."""
    embedding = shape.vocabulary * shape.width
    block = 12 * shape.width**2 * shape.layers
    tokens = EPOCHS * shape.batch * (PROMPT + NEW)
    return 6.0 * (embedding + block) * tokens


def trl_python(args: argparse.Namespace) -> Path:
    """The interpreter of TRL's environment, made if it is not there."""
    if args.trl_python:
        return Path(args.trl_python)
    python = VENV / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        pip = [str(python), "-m", "pip", "install", "-q", *PACKAGES]
        subprocess.run(pip, check=True)
    return python


CASES = (
    {"name": "fp32, 1 minibatch", "minibatches": 1, "bf16": False},
    {"name": "fp32, 4 minibatches", "minibatches": 4, "bf16": False},
    {"name": "bf16 autocast, 1 minibatch", "minibatches": 1, "bf16": True},
)


def main() -> None:
    """Measure both sides in turn, print the table and keep it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--updates", type=int, default=2)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--trl-python", help="an interpreter with trl 1.12")
    parser.add_argument("--side", choices=("ours", "trl"))
    parser.add_argument("--minibatches", type=int, default=1)
    parser.add_argument("--bf16", action="store_true")
    args = parser.parse_args()
    if args.side:
        child(args)
        return
    other = trl_python(args)
    rows = []
    for case in CASES:
        for side, python in (("trl", other), ("ours", Path(sys.executable))):
            found = measure(python, args, side, case)
            rows.append(row(f"{case['name']}: {side}", found, args))
            print(rows[-1], flush=True)
    write(rows, args)


def row(name: str, found: dict[str, float], args: argparse.Namespace) -> str:
    """One line of the table."""
    achieved = floor_flop(SHAPES[args.shape]) / found["update"] / 1e9
    return (
        f"| {name} | {found['generate']:.1f} / {found['score']:.1f} / "
        f"{found['update']:.1f} / {found['all']:.1f} | "
        f"{found['episodes']:.2f} | {found['gib']:.1f} | {achieved:.0f} |"
    )


def write(rows: list[str], args: argparse.Namespace) -> None:
    """Put the table of this shape into the results, beside the other's."""
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    head = [
        f"## {args.shape}: {SHAPES[args.shape]}",
        "",
        f"{datetime.date.today()}, {platform.machine()}, "
        f"{os.cpu_count()} cores, load {load}, seconds by the {args.clock} "
        f"clock: "
        f"`python benchmarks/bench_ppo.py --shape {args.shape} "
        f"--updates {args.updates} --threads {args.threads} --clock "
        f"{args.clock}`",
        "",
        "| run | seconds: generate / score / update / all | episodes a "
        "second | peak GiB | GFLOP/s of the floor |",
        "|---|---|---|---|---|",
        *rows,
        "",
    ]
    text = RESULTS.read_text() if RESULTS.exists() else f"# {TITLE}\n\n"
    start, _, rest = text.partition(f"## {args.shape}:")
    _, mark, after = rest.partition("\n## ")
    RESULTS.write_text(start + "\n".join(head) + (mark and mark[1:]) + after)


TITLE = "PPO: ours and TRL 1.12's"

if __name__ == "__main__":
    main()
