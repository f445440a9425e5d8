"""The embedded base model: a tokenizer and a small Llama from scratch.

What it is: a stock transformers model of some four million parameters that
writes Python functions, so that everything else can be tried offline.
Seven tenths of its reading has a corrupted body under a clean signature
(stylerl/corrupt/rules.py): like code at large, it leaves something to align.

How a document looks: <eos> text <eos>.  Documents are batched by length, so
little is padded and none sees another; the matrices are trained by Muon
(Jordan et al. 2024) and the rest by AdamW, under a schedule that warms up,
holds, and decays linearly to zero (arXiv 2405.18392).

A run that was killed resumes from its last checkpoint, to the same bits.  A
checkpoint from before the decay also serves a longer or shorter budget: the
rate had not yet known which one it was.  On a CUDA device the same recipe
runs there.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import tokenizers
import torch
from tqdm import tqdm
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from stylerl.config import PretrainConfig
from stylerl.corrupt import corrupt_style
from stylerl.data import corpus
from stylerl.errors import DataError
from stylerl.lm import checkpoint

PAD, EOS = "<|pad|>", "<|eos|>"
MUON_RATE = 0.02  # of the matrices, at the peak
ADAM_RATE = 0.003  # of the rest, at the peak
WEIGHT_DECAY = 0.1  # of the matrices alone
WARMUP = 250_000  # tokens over which the rate rises
DECAY = 0.3  # share of the tokens over which it falls to zero
MAX_NORM = 1.0  # gradients are clipped to
TOKENIZER_TEXTS = 40_000
MEASURE_EVERY = 500  # steps
HELD_OUT = 1000  # texts to measure on


class Progress(NamedTuple):
    """The state of training after one optimiser step."""

    step: int
    tokens: int
    loss: float  # nats a token, smoothed over some 50 steps
    valid_bits: float | None  # bits per byte of held-out code, when measured


class Place(NamedTuple):
    """How far the reading has come."""

    epoch: int
    taken: int  # batches of this epoch
    order: Any  # of the generator, before it shuffled this epoch


@dataclass
class State:
    """What a checkpoint holds besides weights and optimisers."""

    place: Place
    seen: int  # tokens predicted
    step: int
    smooth: float  # loss, nats a token, over some 50 steps
    measured: list[Progress]

    def add(self, count: int, loss: float) -> None:
        """Count a step on `count` tokens."""
        self.seen += count
        self.step += 1
        self.smooth += (loss - self.smooth) / min(self.step, 50)


def train_tokenizer(
    texts: Sequence[str], vocabulary: int
) -> PreTrainedTokenizerFast:
    """A byte-level BPE that gives every text back, space for space."""
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(
        add_prefix_space=False
    )
    model.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PAD, EOS],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    model.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=model,
        pad_token=PAD,
        bos_token=EOS,
        eos_token=EOS,
        clean_up_tokenization_spaces=False,
    )


def new_model(
    config: PretrainConfig, tokenizer: PreTrainedTokenizerFast
) -> LlamaForCausalLM:
    """A Llama of the configured shape with random weights."""
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=config.hidden,
            intermediate_size=8 * config.hidden // 3 // 32 * 32,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            num_key_value_heads=1,  # shared: decoding has less to read
            max_position_embeddings=config.context,
            tie_word_embeddings=True,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=tokenizer.eos_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
    )
    model.set_attn_implementation("eager")  # at this length twice SDPA's speed
    return model


def corrupted(
    snippets: pd.DataFrame, share: float, seed: int, epoch: int
) -> list[str]:
    """The texts; a share of their bodies is corrupted, anew each epoch."""
    texts = []
    columns = snippets["id"], snippets["text"], snippets["body_start"]
    for name, text, start in zip(*columns, strict=True):
        rng = random.Random(f"{seed}:{epoch}:{name}")
        if rng.random() < share:
            text, _ = corrupt_style(text, start, rng)
        texts.append(text)
    return texts


def encode(
    tokenizer: PreTrainedTokenizerFast, texts: list[str], context: int
) -> list[list[int]]:
    """Token ids of <eos> text <eos>; texts over `context` are left out."""
    eos = tokenizer.eos_token_id
    rows = tokenizer(texts, add_special_tokens=False)["input_ids"]
    return [[eos, *ids, eos] for ids in rows if len(ids) + 2 <= context]


def batches(
    documents: list[list[int]], tokens: int, rng: random.Random
) -> Iterator[list[list[int]]]:
    """Shuffled batches of documents of similar length, `tokens` in each."""
    order = sorted(
        range(len(documents)),
        key=lambda i: (len(documents[i]) // 8, rng.random()),
    )
    groups: list[list[list[int]]] = [[]]
    longest = 0
    for i in order:
        longest = max(longest, len(documents[i]))
        if groups[-1] and longest * (len(groups[-1]) + 1) > tokens:
            groups.append([])
            longest = len(documents[i])
        groups[-1].append(documents[i])
    rng.shuffle(groups)
    yield from groups


def pad(documents: list[list[int]], pad_id: int) -> torch.Tensor:
    """(B, T) ids, padded on the right."""
    width = max(map(len, documents))
    return torch.tensor([d + [pad_id] * (width - len(d)) for d in documents])


def loss_of(
    model: Callable[..., Any], ids: torch.Tensor, pad_id: int
) -> torch.Tensor:
    """Sum of nats over the real tokens of a (B, T) batch."""
    targets = torch.nn.functional.pad(ids[:, 1:], (0, 1), value=pad_id)
    logits = model(input_ids=ids, use_cache=False).logits.float()
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, 1),
        targets.flatten(),
        ignore_index=pad_id,
        reduction="sum",
    )


def train(
    snippets: pd.DataFrame,
    config: PretrainConfig,
    seed: int,
    checkpoints: Path | None = None,
) -> Iterator[tuple[Progress, LlamaForCausalLM, PreTrainedTokenizerFast]]:
    """Train from scratch, yielding after every optimiser step.

    Args:
        snippets: rows of snippets.parquet; train is learnt, valid measured.
        config: the shape of the model and the budget of tokens.
        seed: of the weights, the corruption and the order of reading.
        checkpoints: a folder of this run's own.  Training resumes from its
            last checkpoint, and yields the measured steps before it again.

    Raises:
        DataError: one of the two splits is empty.
    """
    # 1. A tokenizer, and a model with random weights, on the device.
    learnt, held_out = _splits(snippets)
    torch.manual_seed(seed)
    tokenizer = _fit_tokenizer(learnt, config, seed)
    model = _on_device(new_model(config, tokenizer))
    fast_loss = loss_of
    if config.compile:
        fast_loss = torch.compile(loss_of, dynamic=True)
    optimizers = _optimizers(model)
    # 2. Where the last checkpoint was, or at the beginning.
    start = Place(1, 0, random.Random(seed).getstate())
    state = State(start, 0, 0, math.log(config.vocabulary), [])
    saved = checkpoint.latest(checkpoints) if checkpoints else None
    if saved:
        state = _restore(saved, model, optimizers)
        check_budget(state.seen, saved.state["budget"], config.tokens)
    for progress in state.measured:
        yield progress, model, tokenizer
    # 3. One step a batch, until the budget is spent.
    bar = tqdm(
        desc="pretrain",
        total=config.tokens,
        initial=state.seen,
        unit=" tokens",
    )
    reading = _endless(learnt, tokenizer, config, seed, state.place)
    for state.place, batch in reading:
        share = schedule(state.seen, config.tokens)
        ids = pad(batch, tokenizer.pad_token_id).to(model.device)
        count = _predicted_tokens(batch)
        with torch.autocast(model.device.type, torch.bfloat16):
            loss = fast_loss(model, ids, tokenizer.pad_token_id) / count
        _descend(model, optimizers, loss, share)
        state.add(count, loss.item())
        bar.update(count)
        bar.set_postfix(loss=f"{state.smooth:.3f}")
        done = state.seen >= config.tokens
        # 4. Measure now and then, and keep what a killed run resumes from.
        bits = None
        if state.step % MEASURE_EVERY == 0 or done:
            bits = bits_per_byte(model, tokenizer, held_out)
        progress = Progress(state.step, state.seen, state.smooth, bits)
        if bits is not None:
            state.measured.append(progress)
        every = config.checkpoint_every
        if checkpoints and every and state.step % every == 0 and not done:
            _save(checkpoints, state, config.tokens, model, optimizers)
        yield progress, model, tokenizer
        if done:
            return


def _splits(snippets: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The snippets to learn, and the texts to measure on."""
    learnt = snippets[snippets["split"] == "train"]
    held_out = snippets[snippets["split"] == "valid"].head(HELD_OUT)
    if learnt.empty or held_out.empty:
        raise DataError(
            "pretraining needs snippets in the splits train and valid; "
            f"got {len(learnt)} and {len(held_out)}"
        )
    return learnt, list(held_out["text"])


def _fit_tokenizer(
    learnt: pd.DataFrame, config: PretrainConfig, seed: int
) -> PreTrainedTokenizerFast:
    """A tokenizer of texts as the first epoch could show them."""
    count = min(TOKENIZER_TEXTS, len(learnt))
    drawn = learnt.sample(count, random_state=seed)
    texts = corrupted(drawn, config.corrupt_share, seed, 0)
    return train_tokenizer(texts, config.vocabulary)


def _on_device(model: LlamaForCausalLM) -> LlamaForCausalLM:
    """The model on the GPU, if there is one."""
    if torch.cuda.is_available():
        model.to("cuda")  # type: ignore[arg-type]
        model.set_attn_implementation("sdpa")
    return model


def _descend(
    model: LlamaForCausalLM,
    optimizers: Sequence[torch.optim.Optimizer],
    loss: torch.Tensor,
    share: float,
) -> None:
    """One optimiser step along `loss` at a share of the peak rates."""
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * share
        optimizer.step()
        optimizer.zero_grad()


def _predicted_tokens(batch: list[list[int]]) -> int:
    """The first token of a document is given; the others are predicted."""
    return sum(len(document) - 1 for document in batch)


def _endless(
    snippets: pd.DataFrame,
    tokenizer: PreTrainedTokenizerFast,
    config: PretrainConfig,
    seed: int,
    start: Place,
) -> Iterator[tuple[Place, list[list[int]]]]:
    """Batches from `start`, without end; texts corrupted anew each epoch."""
    epoch, done, order = start
    rng = random.Random()
    rng.setstate(order)
    while True:
        order = rng.getstate()
        texts = corrupted(snippets, config.corrupt_share, seed, epoch)
        documents = encode(tokenizer, texts, config.context)
        if not documents:
            raise DataError(
                f"none of {len(texts)} training texts fits pretrain.context = "
                f"{config.context} tokens: raise it, or lower filter.max_chars"
            )
        shuffled = batches(documents, config.batch_tokens, rng)
        for taken, batch in enumerate(shuffled, start=1):
            if taken > done:
                yield Place(epoch, taken, order), batch
        epoch, done = epoch + 1, 0


def _save(
    folder: Path,
    state: State,
    budget: int,
    model: LlamaForCausalLM,
    optimizers: Sequence[torch.optim.Optimizer],
) -> None:
    """Write a checkpoint: weights, both optimisers, and where we are."""
    weights = {k: p.detach() for k, p in model.named_parameters()}
    tensors = {"model": weights}  # tied ones once
    for number, optimizer in enumerate(optimizers):
        tensors[f"optimizer_{number}"] = checkpoint.optimiser_tensors(
            optimizer
        )
    run = [state.place, state.seen, state.step, state.smooth, state.measured]
    facts = {"run": run, "budget": budget}
    checkpoint.save(folder, checkpoint.Checkpoint(state.step, tensors, facts))


def _restore(
    saved: checkpoint.Checkpoint,
    model: LlamaForCausalLM,
    optimizers: Sequence[torch.optim.Optimizer],
) -> State:
    """Undo `_save`."""
    for name, parameter in model.named_parameters():
        parameter.data.copy_(saved.tensors["model"][name])
    for number, optimizer in enumerate(optimizers):
        checkpoint.restore_optimiser(
            optimizer, saved.tensors[f"optimizer_{number}"]
        )
    (epoch, taken, order), seen, step, smooth, measured = saved.state["run"]
    version, internal, gauss = order
    place = Place(epoch, taken, (version, tuple(internal), gauss))
    return State(
        place, seen, step, smooth, [Progress(*each) for each in measured]
    )


def schedule(seen: int, budget: int) -> float:
    """Share of the peak rate when `seen` of `budget` tokens are read."""
    warmup = _warmup(budget)
    rise = seen / warmup if seen < warmup else 1.0
    left = 1 - seen / budget
    fall = left / DECAY if left < DECAY else 1.0
    return max(0.01, min(rise, fall))


def _warmup(budget: int) -> float:
    """Tokens over which the rate rises."""
    return min(WARMUP, budget / 50)


def check_budget(seen: int, before: int, budget: int) -> None:
    """Refuse a checkpoint whose rates another budget would not have had.

    Raises:
        DataError: the rate had begun to fall, or would have by now, or it
            rose over another number of tokens.
    """
    if before == budget:
        return
    holds = seen <= (1 - DECAY) * min(before, budget)
    if not holds or _warmup(before) != _warmup(budget):
        raise DataError(
            f"the checkpoint has read {seen:,} tokens of pretrain.tokens = "
            f"{before:,}; under {budget:,} its rates would have been others. "
            f"Take a budget of at least {math.ceil(seen / (1 - DECAY)):,}, "
            f"go back to {before:,}, or remove checkpoints/pretrain"
        )


def _optimizers(model: LlamaForCausalLM) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside the blocks, AdamW for all the rest."""
    inner = [p for p in model.model.layers.parameters() if p.ndim == 2]
    chosen = set(map(id, inner))
    rest = [p for p in model.parameters() if id(p) not in chosen]
    muon = torch.optim.Muon(
        [{"params": inner, "peak": MUON_RATE}],
        lr=MUON_RATE,
        momentum=0.95,
        weight_decay=WEIGHT_DECAY,
    )
    adam = torch.optim.AdamW(
        [{"params": rest, "peak": ADAM_RATE}],
        lr=ADAM_RATE,
        betas=(0.9, 0.95),
        weight_decay=0.0,
    )
    return [muon, adam]


@torch.inference_mode()
def bits_per_byte(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    texts: list[str],
) -> float:
    """Mean bits the model needs for one byte of `texts`, ends included.

    Raises:
        DataError: no text fits the model's context.
    """
    context = model.config.max_position_embeddings
    documents = encode(tokenizer, texts, context)
    if not documents:
        raise DataError(
            f"none of {len(texts)} texts fits the context of {context}"
        )
    size = sum(
        len(str(tokenizer.decode(document[1:-1])).encode())
        for document in documents
    )
    nats = 0.0
    for batch in batches(documents, 8192, random.Random(0)):
        ids = pad(batch, tokenizer.pad_token_id).to(model.device)
        nats += loss_of(model, ids, tokenizer.pad_token_id).item()
    return nats / math.log(2) / size


def describe(snippets: pd.DataFrame, config: PretrainConfig) -> dict[str, Any]:
    """What the model card needs to know of the training data."""
    learnt = snippets[snippets["split"] == "train"]
    counts = learnt[["distribution", "version", "licence"]].value_counts(
        sort=False
    )
    return {
        "snippets": len(learnt),
        "digest": corpus.digest("".join(learnt["id"])),
        "corrupt_share": config.corrupt_share,
        "distributions": counts.reset_index().to_numpy().tolist(),
    }
