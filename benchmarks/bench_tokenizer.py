"""What a reward model cannot see through an uncased WordPiece tokenizer.

    python benchmarks/bench_tokenizer.py [--labels N] [--pairs N]

DistilBERT's tokenizer (uncased: lower case, accents off, split at white
space, which is then gone) against the whitespace-faithful byte-level BPE of
the embedded base.  Both are trained on the same snippets with as many
tokens; under both stands the same small Llama, drawn anew from the same
seed, trained on the same texts in as many steps to tell compliant code from
the rest.  Measured on held-out labels and minimal pairs, by group of rules.
A pair that a tokenizer turns into equal tokens is a tie, which counts half.
Results go to benchmarks/results/tokenizer.md.
"""

import argparse
import datetime
import os
import platform
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from tokenizers import BertWordPieceTokenizer
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from stylerl import storage
from stylerl.config import JudgeConfig, RewardConfig
from stylerl.judge import Judge, pool
from stylerl.lm import models
from stylerl.reward import scorers
from stylerl.reward_models import model_metrics as metrics
from stylerl.reward_models import pairs, scorer_training
from stylerl.supervised.pretrain import train_tokenizer

LABELS = Path("artifacts/label/labels.parquet")
RESULTS = Path(__file__).parent / "results" / "tokenizer.md"
VOCABULARY = 4096
SEED = 0
GROUPS = {
    "E1 W1": "indentation",
    "E2": "white space in a line",
    "E3": "blank lines",
    "E5": "long lines",
    "E7": "statements",
    "W2 W3": "trailing white space",
    "W6": "deprecated",
    "F": "pyflakes",
}


class Result(NamedTuple):
    """What one model saw of the held-out texts and pairs."""

    name: str
    tokens: float  # a text
    seconds: float
    scores: np.ndarray  # P(compliant) of each held-out label
    won: np.ndarray  # of each pair: 1, or 0.5 for a tie
    equal: np.ndarray  # of each pair: the tokens are the same


def main() -> None:
    """Train both, measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--labels", type=int, default=5000, metavar="N")
    parser.add_argument("--pairs", type=int, default=2500, metavar="N")
    parser.add_argument("--epochs", type=float, default=2.0, metavar="N")
    parser.add_argument("--table", type=Path, default=LABELS)
    options = parser.parse_args()
    labels, judge = storage.read_table(options.table), Judge(JudgeConfig())
    train, valid = (
        labels[labels["split"] == split] for split in ("train", "valid")
    )
    learnt = pairs.minimal(train, judge, options.pairs, SEED)
    held_out = pairs.minimal(valid, judge, 1000, SEED)
    texts = with_pairs(train.head(options.labels), learnt)
    corpus = train["text"].tolist()
    tokenizers = {
        "uncased WordPiece": train_wordpiece(corpus),
        "byte-level BPE": train_tokenizer(corpus, VOCABULARY),
    }
    results = [
        measured(name, tokenizer, texts, valid, held_out, options.epochs)
        for name, tokenizer in tokenizers.items()
    ]
    page = report(options, len(texts), valid, held_out, results)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(page, encoding="utf-8")
    print(page)


def with_pairs(
    labels: pd.DataFrame, learnt: list[pairs.Preference]
) -> pd.DataFrame:
    """Labels, and both texts of each pair with theirs."""
    table = pd.DataFrame(learnt)
    frames = [
        labels[["text", "compliant"]],
        table[["chosen"]].set_axis(["text"], axis=1).assign(compliant=True),
        table[["rejected"]].set_axis(["text"], axis=1).assign(compliant=False),
    ]
    return pd.concat(frames, ignore_index=True)


def train_wordpiece(corpus: list[str]) -> PreTrainedTokenizerFast:
    """DistilBERT's kind of tokenizer, from BERT's normaliser on."""
    words = BertWordPieceTokenizer(lowercase=True)
    words.train_from_iterator(
        corpus, vocab_size=VOCABULARY, show_progress=False
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=words._tokenizer,
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        pad_token="[PAD]",
    )


def measured(
    name: str,
    tokenizer: PreTrainedTokenizerBase,
    texts: pd.DataFrame,
    valid: pd.DataFrame,
    held_out: list[pairs.Preference],
    epochs: float,
) -> Result:
    """Train a model of the same size on the same texts; what it sees."""
    start = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        models.save_model(new_model(tokenizer), tokenizer, Path(folder, "m"))
        config = RewardConfig(
            base=str(Path(folder, "m")), epochs=epochs, learning_rate=1e-3
        )
        scorer = scorer_training.train_classifier(texts, config, SEED)
    seconds = time.process_time() - start
    chosen = [pair.chosen for pair in held_out]
    rejected = [pair.rejected for pair in held_out]
    rows = [
        scorers.encode_texts(scorer.tokenizer, side, 10**6)
        for side in (chosen, rejected)
    ]
    return Result(
        name,
        float(np.mean([len(row) for row in rows[0]])),
        seconds,
        scorers.score_texts(*scorer, valid["text"].tolist()),
        metrics.won(
            scorers.score_texts(*scorer, chosen).round(9),
            scorers.score_texts(*scorer, rejected).round(9),
        ),
        np.array([a == b for a, b in zip(*rows, strict=True)]),
    )


def new_model(tokenizer: PreTrainedTokenizerBase) -> LlamaForCausalLM:
    """The embedded base's architecture, small, with random weights."""
    torch.manual_seed(SEED)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=128,
            intermediate_size=344,
            num_hidden_layers=4,
            num_attention_heads=4,
            max_position_embeddings=512,
            tie_word_embeddings=True,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def report(
    options: argparse.Namespace,
    learnt: int,
    valid: pd.DataFrame,
    held_out: list[pairs.Preference],
    results: list[Result],
) -> str:
    """The Markdown page."""
    command = (
        f"python benchmarks/bench_tokenizer.py --labels {options.labels} "
        f"--pairs {options.pairs} --epochs {options.epochs:g}"
    )
    names = " | ".join(result.name for result in results)
    lines = [
        "# What an uncased WordPiece tokenizer hides",
        "",
        f"`{command}`, {datetime.date.today()}, {platform.machine()}, "
        f"{torch.get_num_threads()} of {pool.cores()} cores, load average "
        f"{os.getloadavg()[0]:.1f}, torch {torch.__version__}.",
        "",
        f"Two classifiers P(compliant), from scratch, of one size and on the "
        f"same {learnt} texts; {len(valid)} held-out labels and "
        f"{len(held_out)} held-out minimal pairs. A pair of equal tokens is "
        "a tie and counts half: 50% is blind.",
        "",
        f"| | {names} |",
        "|---|" + "---:|" * len(results),
        *overall(valid, results),
        "",
        "By group of rules: the minimal pairs ranked right, and how well "
        "compliant labels are told from labels that break a rule of the "
        "group (AUROC; accuracy on the latter alone).",
        "",
        "| rules | pairs | "
        + " | ".join(
            f"{r.name}: pairs of equal tokens | right | AUROC | accuracy"
            for r in results
        )
        + " |",
        "|---|" + "---:|" * (1 + 4 * len(results)),
        *by_group(valid, held_out, results),
    ]
    return "\n".join(lines) + "\n"


def overall(valid: pd.DataFrame, results: list[Result]) -> list[str]:
    """The numbers over all rules."""
    clean = valid["compliant"]
    rows = {
        "accuracy": [
            percent(metrics.accuracy(clean, r.scores)) for r in results
        ],
        "AUROC": [number(metrics.auroc(clean, r.scores)) for r in results],
        "minimal pairs right": [percent(r.won.mean()) for r in results],
        "pairs of equal tokens": [percent(r.equal.mean()) for r in results],
        "tokens a text": [f"{r.tokens:.0f}" for r in results],
        "seconds of CPU to train": [f"{r.seconds:.0f}" for r in results],
    }
    return [f"| {name} | {' | '.join(row)} |" for name, row in rows.items()]


def by_group(
    valid: pd.DataFrame,
    held_out: list[pairs.Preference],
    results: list[Result],
) -> list[str]:
    """One line for each group of rules that the held-out pairs have."""
    lines = []
    clean = valid["compliant"].to_numpy()
    for group, words in GROUPS.items():
        prefixes = tuple(group.split())
        own = np.array([p.rule.startswith(prefixes) for p in held_out])
        if not own.any():
            continue
        broken = np.array(
            [any(c.startswith(prefixes) for c in cs) for cs in valid["codes"]]
        )
        either = clean | broken
        cells = [f"{group} {words}", str(own.sum())]
        for result in results:
            scores = result.scores
            cells += [
                percent(result.equal[own].mean()),
                percent(result.won[own].mean()),
                number(metrics.auroc(clean[either], scores[either])),
                percent((scores[broken] < 0.5).mean())
                if broken.any()
                else "–",
            ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def percent(share: float) -> str:
    """A share in per cent."""
    return f"{100 * share:.1f}%"


def number(value: float | None) -> str:
    """A number between 0 and 1, or a dash."""
    return "–" if value is None else f"{value:.3f}"


if __name__ == "__main__":
    main()
