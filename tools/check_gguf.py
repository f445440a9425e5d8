"""Check that llama.cpp, given our GGUF files, writes what transformers writes.

    pip install gguf llama-cpp-python     # compiles llama.cpp: half an hour
    python tools/check_gguf.py artifacts/base

For each model folder, and for a little GPT-2 with the first one's tokenizer
that is trained here for a minute, each kind of file is written; then both
programs complete the same PROMPTS greedily, from the same token ids, with
one thread.  A prompt counts as the same if every token is.  The exit code is
1 where an f32 file, which neither program rounds, gives other tokens.
"""

import ast
import heapq
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from stylerl.export import gguf_file
from stylerl.lm.models import (
    encode_prompt,
    load_causal_lm,
    load_tokenizer,
    save_model,
)

MODULES = (textwrap, heapq, shutil)  # whose functions are the prompts
PROMPTS = 20
LONGEST = 200  # tokens of a prompt
TOKENS = 48  # of a completion, at most
STEPS, ROWS, CONTEXT = 60, 8, 320  # of the little GPT-2's training
F32 = 0  # ggml's number of the type, for keys and values


class Agreement(NamedTuple):
    """How far the two programs agree."""

    encoded: int  # prompts with the same token ids
    same: int  # completions with the same tokens
    margin: float | None  # logits between the two best where they first part


def main(folders: list[str]) -> int:
    """Check each model; print a table."""
    same = True
    print(
        "| model | file | prompts encoded alike | completed alike | margin |"
    )
    print("|---|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as scratch:
        little = Path(scratch, "gpt2")
        train_gpt2(folders[0], little)
        for folder in [*map(Path, folders), little]:
            for kind, found in compare(folder, Path(scratch)):
                margin = "" if found.margin is None else f"{found.margin:.4f}"
                print(
                    f"| {folder.name} | {kind} | {found.encoded}/{PROMPTS} "
                    f"| {found.same}/{PROMPTS} | {margin} |",
                    flush=True,
                )
                same &= found.encoded == PROMPTS
                same &= kind != "f32" or found.same == PROMPTS
    return int(not same)


def compare(folder: Path, scratch: Path) -> Iterator[tuple[str, Agreement]]:
    """Let both programs complete the prompts, from a file of each kind."""
    tokenizer = load_tokenizer(folder)
    model: Any = load_causal_lm(folder, tokenizer=tokenizer)
    texts = prompts(tokenizer)
    rows = [encode_prompt(tokenizer, text) for text in texts]
    ours = [greedy(model, ids) for ids in rows]
    for kind in gguf_file.KINDS:
        file = scratch / f"{kind}.gguf"
        gguf_file.write(model, tokenizer, file, kind)
        llama = opened(file, model.config.max_position_embeddings)
        encoded, same, margins = 0, 0, []
        for text, ids, (tokens, leads) in zip(texts, rows, ours, strict=True):
            encoded += llama.tokenize(text.encode(), special=False) == ids
            theirs = llama_greedy(llama, ids, tokenizer.eos_token_id)
            same += tokens == theirs
            pairs = enumerate(zip(tokens, theirs, strict=False))
            margins += [leads[i] for i, (a, b) in pairs if a != b][:1]
        llama.close()
        yield kind, Agreement(encoded, same, max(margins, default=None))


def opened(file: Path, context: int) -> Any:
    """The file, loaded by llama.cpp, with keys and values in f32."""
    from llama_cpp import Llama

    return Llama(
        str(file),
        n_ctx=context,
        n_threads=1,
        n_threads_batch=1,
        type_k=F32,
        type_v=F32,
        verbose=False,
    )


@torch.inference_mode()
def greedy(model: Any, ids: list[int]) -> tuple[list[int], list[float]]:
    """The likeliest tokens by transformers, and each one's lead in logits."""
    drawn = model.generate(
        torch.tensor([ids]),
        do_sample=False,
        max_new_tokens=TOKENS,
        output_logits=True,
        return_dict_in_generate=True,
    )
    best = [logits[0].topk(2).values for logits in drawn.logits]
    tokens = drawn.sequences[0, len(ids) :].tolist()
    return tokens, [float(two[0] - two[1]) for two in best]


def llama_greedy(llama: Any, ids: list[int], eos: int) -> list[int]:
    """The likeliest tokens by llama.cpp, up to eos."""
    found: list[int] = []
    llama.reset()
    for token in llama.generate(ids, temp=0.0, repeat_penalty=1.0):
        found.append(token)
        if token == eos or len(found) == TOKENS:
            break
    return found


def prompts(tokenizer: Any) -> list[str]:
    """The first functions of MODULES: signature and docstring."""
    found = []
    for module in MODULES:
        source = Path(module.__file__).read_text()
        lines = source.splitlines()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef) and ast.get_docstring(node):
                header = lines[node.lineno - 1 : node.body[0].end_lineno]
                found.append(textwrap.dedent("\n".join(header)))
    fitting = [p for p in found if len(tokenizer.encode(p)) < LONGEST]
    assert len(fitting) >= PROMPTS
    return fitting[:PROMPTS]


def train_gpt2(base: str, folder: Path) -> None:
    """Write a little GPT-2 that has read some of the standard library."""
    tokenizer = load_tokenizer(base)
    torch.manual_seed(0)
    shape = GPT2Config(
        vocab_size=len(tokenizer),
        n_embd=128,
        n_layer=3,
        n_head=4,
        n_positions=CONTEXT,
        scale_attn_by_inverse_layer_idx=True,  # as codeparrot's
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    model: Any = GPT2LMHeadModel(shape)
    text = "".join(
        path.read_text()
        for path in sorted(Path(ast.__file__).parent.glob("a*.py"))
    )
    ids = torch.tensor(tokenizer.encode(text))
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(STEPS):
        starts = torch.randint(len(ids) - 128, (ROWS,))
        batch = torch.stack([ids[i : i + 128] for i in starts])
        loss = model(input_ids=batch, labels=batch).loss
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    print(f"the little GPT-2's last loss: {loss:.2f}\n", file=sys.stderr)
    save_model(model, tokenizer, folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["artifacts/base"]))
