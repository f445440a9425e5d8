"""llama.cpp completes what `stylerl export` writes; `make test-engines`."""

import pytest

from stylerl.cli import main as cli
from stylerl.errors import ModelError
from stylerl.export import gguf_file, llama_cpp
from stylerl.lm.sampling import generate

PROMPT = "def add(a, b):\n"
ASKED = {"max_new_tokens": 8, "temperature": 0.0, "seed": 0}


@pytest.fixture
def file(llama_folder, tmp_path):
    """The tiny Llama's weights as they are."""
    return gguf_file.export(llama_folder, tmp_path, "f32")


def test_the_likeliest_tokens_are_those_of_transformers(
    file, tiny_llama, tokenizer
):
    told = []
    text, ended = llama_cpp.complete(file, PROMPT, **ASKED, listen=told.append)
    ours = generate(tiny_llama, tokenizer, [PROMPT], **ASKED)
    assert text == ours.texts[0] != ""
    assert ended == ours.finished[0]
    assert told[-1] == text
    assert len(told) > 1
    assert told == sorted(told, key=len)


def test_a_seed_is_a_draw(file):
    draws = [
        llama_cpp.complete(
            file,
            PROMPT,
            max_new_tokens=8,
            temperature=1.0,
            seed=seed,
            listen=lambda text: None,
        )
        for seed in (0, 0, 1)
    ]
    assert draws[0] == draws[1] != draws[2]


def test_what_llama_cpp_cannot_do_is_one_clear_error(file, tmp_path):
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ModelError, match="it cannot load .*bad.gguf"):
        llama_cpp.complete(bad, PROMPT, **ASKED, listen=print)
    with pytest.raises(ModelError, match="llama.cpp refuses the prompt"):
        llama_cpp.complete(file, "x\n" * 9000, **ASKED, listen=print)


def test_the_command_takes_a_file(file, capsys):
    assert cli.main(["complete", "--model", str(file), PROMPT]) == 0
    assert file.name in capsys.readouterr().out
