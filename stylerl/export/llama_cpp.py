"""A GGUF file, completed by llama.cpp: an answer within two seconds.

Neither torch nor transformers is imported, which take most of a short
completion's time.  llama.cpp's server runs in this process, by the package
xllamacpp, and is asked over HTTP as its users ask it.
"""

import json
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from stylerl.errors import ModelError

CONTEXT = 4096  # tokens of a prompt and its completion; more take memory
# As the evaluation samples: from all tokens, by the temperature alone.
PLAIN = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "repeat_penalty": 1.0}


def complete(
    file: Path,
    prompt: str,
    *,
    max_new_tokens: int,
    temperature: float,
    seed: int,
    listen: Callable[[str], None],
) -> tuple[str, bool]:
    """A completion, and whether the model ended it.

    `listen` is told the text as it grows.

    Raises:
        ModelError: llama.cpp cannot read the file, or complete the prompt.
    """
    from xllamacpp import CommonParams, Server

    settings = CommonParams()
    settings.model.path = str(file)
    settings.n_ctx = CONTEXT
    settings.n_parallel = 1
    settings.warmup = False  # which takes longer than a short body
    settings.verbosity = -1
    asked = {
        "prompt": prompt,
        "n_predict": max_new_tokens,
        "temperature": temperature,
        "seed": seed,
        "stream": True,
        **PLAIN,
    }
    try:
        server = Server(settings)
        text, part = "", {}
        for part in _parts(f"{server.listening_address}/completion", asked):
            if "error" in part:
                raise ModelError(f"llama.cpp goes no further: {part['error']}")
            text += part["content"]
            listen(text)
    except HTTPError as error:
        reason = error.read().decode(errors="replace")
        raise ModelError(f"llama.cpp refuses the prompt: {reason}") from error
    except RuntimeError as error:
        raise ModelError(
            f"llama.cpp must be able to load a model; it cannot load {file}: "
            "`stylerl export` writes such a file"
        ) from error
    return text, part.get("stop_type") == "eos"


def _parts(url: str, asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The events of the server, one a token: `data: {...}`."""
    body = json.dumps(asked).encode()
    request = urllib.request.Request(
        url, body, {"Content-Type": "application/json"}
    )
    # It is on this machine, which no proxy knows.
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(request) as answer:
        for line in answer:
            name, _, value = line.partition(b": ")
            if name == b"data":
                yield json.loads(value)
