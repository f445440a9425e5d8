"""Our PPO trainer against TRL 1.12's, the last that there was: same work.

    python benchmarks/bench_ppo.py [--shape small|110m] [--only ours|trl]
                                   [--updates N] [--threads N]
                                   [--clock wall|cpu] [--trl-python PATH]

Both train a GPT-2 with random weights: prompts of 32 tokens, exactly 64 new
tokens, 4 epochs.  `small` is 6 layers of 384 with a vocabulary of 8,192 and
32 episodes a batch, `110m` 12 layers of 768 with 32,768 and 8 episodes; both
are run unless one is named.  First fp32 on both sides, then each side's best:
bf16 autocast for ours, bf16 autocast and weights in bf16 for TRL.  TRL runs
in a virtual environment of its own, which the script makes under build/trl;
each run is a process of its own, and the two sides take turns.  The first
update warms up and is not counted.  A GPU is used where there is one.  On a
machine that does something else as well, take one thread and `--clock cpu`:
seconds of CPU time.

TRL has to be given a reward model and a value model.  Its reward model is one
layer of 64, so that next to nothing of its time is that; its value model
has the policy's shape, as its documentation has it.  Ours has no value: a
prompt is completed twice, and computed once.  Our reward function counts
words.  The floor is the least that an update of PPO computes: a
forward pass over each episode to sample it, two to score it (policy and
reference), and three for every epoch (a backward pass counts twice), with two
operations a weight and token, and the output embedding on responses only.
The share of the floor is the time this would take at the speed of a matrix
product of 1,024 (on a GPU 8,192) in the same precision, measured in the same
process, over the time it took.  Results go to benchmarks/results/ppo.md.
"""

import argparse
import datetime
import json
import os
import platform
import re
import resource
import shutil
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
CPU = "https://download.pytorch.org/whl/cpu"  # torch without CUDA
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
    "110m": Shape(12, 768, 12, 32768, 8),
}


class Case(NamedTuple):
    """One row of the table."""

    side: str
    numerics: str  # fp32, bf16 (autocast), or bf16 weights
    minibatches: int = 1


CASES = (
    Case("trl", "fp32"),
    Case("ours", "fp32"),
    Case("trl", "fp32", minibatches=4),
    Case("ours", "fp32", minibatches=4),
    Case("trl", "bf16"),
    Case("ours", "bf16"),
    Case("trl", "bf16 weights"),
)


PROFILED = Case("ours", "fp32")
KINDS = {  # of operations: names in torch's profiler
    "matrix products": "mm$|linear|matmul",
    "attention": "attention",
    "softmax and what follows from it": "softmax|logsumexp|::(exp|log)_?$",
    "GELU": "gelu",
    "Adam": "adam|Optimizer",
    "layer norm": "layer_norm",
    "copies and selections": "copy_|::(cat|clone|index|gather|scatter|select)",
}


def gpt2(shape: Shape) -> Any:
    """A GPT-2 with random weights; no token of it ends a text."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=shape.vocabulary + 2,
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
    return endless(GPT2LMHeadModel(config), shape.vocabulary)


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


def run_ours(shape: Shape, updates: int, case: Case) -> Any:
    """Seconds by phase of each update, ours."""
    sys.path.insert(0, str(HERE.parent))
    from stylerl.ppo import PPOConfig, PPOTrainer, by_reward

    model = gpt2(shape)
    model.config.activation_function = "gelu_new"
    tokenizer = words(shape.vocabulary)
    tokenizer.bos_token = "w1"
    trainer = PPOTrainer(
        PPOConfig(
            updates=updates,
            batch_size=shape.batch,
            group_size=2,
            num_minibatches=case.minibatches,
            update_epochs=EPOCHS,
            pass_tokens=1024,
            lora_rank=0,
            max_new_tokens=NEW,
            temperature=0.7,
            learning_rate=3e-6,
            precision=case.numerics,
            checkpoint_every=0,
        ),
        policy=model,
        tokenizer=tokenizer,
        grader=by_reward(
            lambda p, c: [float(len(set(text)) % 7) for text in c]
        ),
        prompts=[
            " ".join(f"w{(7 * i + j) % 1000}" for j in range(PROMPT - 1))
            for i in range(shape.batch * 2)
        ],
    )
    found = []
    for step in trainer:
        assert step.metrics["response/length"] == NEW
        assert step.rollouts.prompt_lengths.eq(PROMPT).all()
        seconds = dict(step.seconds)
        seconds["score"] += seconds.pop("judge")
        found.append(seconds)
    return found


def run_trl(shape: Shape, updates: int, case: Case) -> Any:
    """Seconds by phase of each update, TRL's."""
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
    import datasets
    import numpy
    import torch
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

    # Models of our shapes; the reward model is too small to count.
    policy = gpt2(shape)
    models = {
        "model": policy,
        "ref_model": gpt2(shape),
        "reward_model": scorer(1, 64, 1),
        "value_model": scorer(shape.layers, shape.width, shape.heads),
    }
    if case.numerics == "bf16 weights":
        models = {name: each.bfloat16() for name, each in models.items()}
    policy.generation_config.eos_token_id = None
    policy.generation_config.pad_token_id = 0
    rows = [
        {"input_ids": [(7 * i + j) % 1000 for j in range(PROMPT)]}
        for i in range(shape.batch * (updates + 1))
    ]
    # TRL's functions note when they end.
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
                per_device_train_batch_size=shape.batch,
                gradient_accumulation_steps=1,
                num_mini_batches=case.minibatches,
                num_ppo_epochs=EPOCHS,
                local_rollout_forward_batch_size=shape.batch,
                total_episodes=shape.batch * updates,
                response_length=NEW,
                temperature=0.7,
                learning_rate=3e-6,
                bf16=case.numerics == "bf16",
                use_cpu=not torch.cuda.is_available(),
                num_sample_generations=0,
                report_to="none",
                save_strategy="no",
                disable_tqdm=True,
            ),
            processing_class=tokenizer,
            **models,
            train_dataset=datasets.Dataset.from_list(rows),
            eval_dataset=datasets.Dataset.from_list(rows[:2]),
        )
        assert trainer.args.batch_size == shape.batch
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
    """Run one case in this process; print the result as JSON."""
    import torch

    torch.set_num_threads(args.threads)
    if args.clock == "cpu":
        time.perf_counter = time.process_time
    case = CASES[args.case]
    run = run_ours if case.side == "ours" else run_trl
    updates = run(SHAPES[args.shape], args.updates + 1, case)[1:]
    found = {
        phase: sum(each[phase] for each in updates) / len(updates)
        for phase in ("generate", "score", "update")
    }
    found["gib"] = peak_gib()
    dtype = torch.float32 if case.numerics == "fp32" else torch.bfloat16
    found["rate"] = matmul_rate(dtype)
    if case == PROFILED:
        found["profile"] = profile(SHAPES[args.shape], case)
    print(json.dumps(found))


def profile(shape: Shape, case: Case) -> dict[str, float]:
    """Shares of an update's time by kind of operation, ours."""
    import torch

    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU]
    ) as recorded:
        (seconds,) = run_ours(shape, 1, case)
    spent = dict.fromkeys(KINDS, 0.0)
    spent["other operations"] = 0.0
    for event in recorded.key_averages():
        kinds = [
            k for k, names in KINDS.items() if re.search(names, event.key)
        ]
        if event.key != "aten::normal_":  # drawing the model's weights
            kind = kinds[0] if kinds else "other operations"
            spent[kind] += event.self_cpu_time_total / 1e6
    whole = sum(seconds[p] for p in ("generate", "score", "update"))
    shares = {kind: time / whole for kind, time in spent.items()}
    shares["between operations: Python"] = max(0.0, 1 - sum(shares.values()))
    return shares


def peak_gib() -> float:
    """The most memory so far: of the GPU, or of this process."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def matmul_rate(dtype: Any) -> float:
    """Operations a second of a matrix product of 1,024; 8,192 on a GPU."""
    import torch

    cuda = torch.cuda.is_available()
    side = 8192 if cuda else 1024
    a, b = torch.randn(
        2, side, side, device="cuda" if cuda else "cpu", dtype=dtype
    )
    for least in (0.2, 1.0):  # seconds; the first warm up
        count, begin = 0, time.perf_counter()
        while (seconds := time.perf_counter() - begin) < least:
            a @ b
            if cuda:
                torch.cuda.synchronize()
            count += 1
    return 2.0 * side**3 * count / seconds


def measure(
    python: Path, args: argparse.Namespace, shape: str, case: Case
) -> dict[str, float]:
    """Run one case in a process of its own; means over its updates."""
    command = [
        *(str(python), str(Path(__file__).resolve())),
        *("--case", str(CASES.index(case)), "--shape", shape),
        *("--updates", str(args.updates), "--threads", str(args.threads)),
        *("--clock", args.clock),
    ]
    env = {**os.environ, "OMP_NUM_THREADS": str(args.threads)}
    done = subprocess.run(
        command, capture_output=True, text=True, env=env, check=False
    )
    if done.returncode:
        raise SystemExit(f"{case} failed:\n{done.stderr[-3000:]}")
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    found["all"] = sum(found[p] for p in ("generate", "score", "update"))
    found["episodes"] = SHAPES[shape].batch / found["all"]
    found["share"] = floor_flop(SHAPES[shape]) / found["rate"] / found["all"]
    return found


def floor_flop(shape: Shape) -> float:
    """What an update of PPO computes at the least."""
    head = shape.vocabulary * shape.width * NEW
    body = 12 * shape.width**2 * shape.layers * (PROMPT + NEW)
    passes = 1 + 2 + 3 * EPOCHS
    return 2.0 * (head + body) * passes * shape.batch


def trl_python(args: argparse.Namespace) -> Path:
    """The interpreter of TRL's environment, made if it is not there."""
    if args.trl_python:
        return Path(args.trl_python)
    python = VENV / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        pip = [str(python), "-m", "pip", "install", "-q"]
        torch = [each for each in PACKAGES if each.startswith("torch==")]
        ready = shutil.which("nvidia-smi") or os.environ.get("PIP_FIND_LINKS")
        index = [] if ready else ["--index-url", CPU]
        subprocess.run([*pip, *torch, *index], check=True)
        subprocess.run([*pip, *PACKAGES], check=True)
    return python


def main() -> None:
    """Measure both sides in turn, print the tables and keep them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=SHAPES, help="both by default")
    parser.add_argument("--only", choices=("ours", "trl"))
    parser.add_argument("--updates", type=int, default=2)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--trl-python", help="an interpreter with trl 1.12")
    parser.add_argument("--case", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.case is not None:
        child(args)
        return
    pythons = {"ours": Path(sys.executable)}
    if args.only != "ours":
        pythons["trl"] = trl_python(args)
    for shape in [args.shape] if args.shape else SHAPES:
        found = {}
        for case in CASES:
            heavy = shape == "110m" and case.minibatches > 1
            if not heavy and args.only in (None, case.side):
                found[case] = measure(pythons[case.side], args, shape, case)
                print(shape, row(case, found[case]), flush=True)
        lines = [row(*each) for each in found.items()] + comparison(found)
        print("\n".join(comparison(found)), flush=True)
        if args.only is None:
            write(shape, lines, found[PROFILED]["profile"], args)


def row(case: Case, found: dict[str, float]) -> str:
    """One line of the table."""
    cut = "1 minibatch" if case.minibatches == 1 else "4 minibatches"
    return (
        f"| {case.side}, {case.numerics}, {cut} | {found['generate']:.2f} / "
        f"{found['score']:.2f} / {found['update']:.2f} / {found['all']:.2f} | "
        f"{found['episodes']:.2f} | {found['gib']:.2f} | "
        f"{found['rate'] / 1e9:.0f} | {100 * found['share']:.0f}% |"
    )


def comparison(found: dict[Case, dict[str, float]]) -> list[str]:
    """Ours over TRL's: at equal numerics, and each side's fastest."""
    pairs = [
        (f"{case.numerics}, minibatches: {case.minibatches}", case, other)
        for case in found
        for other in found
        if case.side == "ours" and other == case._replace(side="trl")
    ]
    sides = [[c for c in found if c.side == s] for s in ("ours", "trl")]
    if all(sides):
        ours, trl = (
            max(side, key=lambda c: found[c]["episodes"]) for side in sides
        )
        pairs.append((f"best ({trl.numerics} for TRL)", ours, trl))
    return [
        "",
        *(
            f"- {name}: "
            f"{found[ours]['episodes'] / found[trl]['episodes']:.2f} times "
            f"TRL's episodes a second, "
            f"{found[ours]['gib'] / found[trl]['gib']:.2f} of its memory"
            for name, ours, trl in pairs
        ),
    ]


def hardware() -> str:
    """The processor or GPU that computes."""
    import torch

    if torch.cuda.is_available():
        return str(torch.cuda.get_device_name(0))
    info = Path("/proc/cpuinfo")
    names = [
        line.partition(":")[2].strip()
        for line in (info.read_text().splitlines() if info.exists() else [])
        if line.startswith("model name")
    ]
    name = names[0] if names else platform.machine()
    return f"{name}, {os.cpu_count()} logical cores"


def write(
    shape: str,
    lines: list[str],
    shares: dict[str, float],
    args: argparse.Namespace,
) -> None:
    """Put the table of this shape into the results, beside the other's."""
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    spent = [
        "Where an update of ours goes (fp32, 1 minibatch, one update under "
        "torch's profiler, the first):",
        "",
        *(
            f"- {kind}: {100 * share:.0f}%"
            for kind, share in sorted(shares.items(), key=lambda x: -x[1])
        ),
        "",
    ]
    size = SHAPES[shape]
    text = "\n".join(
        [
            f"## {shape}: {size.layers} layers of {size.width}, vocabulary "
            f"{size.vocabulary:,}, {size.batch} episodes",
            "",
            f"{datetime.date.today()}, {hardware()}, load {load}, seconds by "
            f"the {args.clock} clock: `python benchmarks/bench_ppo.py --shape "
            f"{shape} --updates {args.updates} --threads {args.threads} "
            f"--clock {args.clock}`",
            "",
            "| run | seconds: generate / score / update / all | episodes a "
            "second | peak GiB | GFLOP/s of a matrix product | share of the "
            "floor |",
            "|---|---|---|---|---|---|",
            *lines,
            "",
            *spent,
        ]
    )
    old = RESULTS.read_text() if RESULTS.exists() else ""
    parts = {
        part.partition(":")[0]: f"## {part.strip()}\n"
        for part in old.split("\n## ")[1:]
    }
    parts[shape] = text
    kept = [parts[name] for name in SHAPES if name in parts]
    RESULTS.write_text("\n".join([f"# {TITLE}\n", *kept]))


TITLE = "PPO: ours and TRL 1.12's"

if __name__ == "__main__":
    main()
