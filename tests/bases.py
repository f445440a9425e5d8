"""Folders as the hub has them: the architecture and the tokenizer of a real
base model, with two layers of 32 and random weights, made where it is asked
for.

What differs between them is what a trainer may trip over: the tokenizer's
class, bos, eos and pad; chat tokens; rows of the embedding that no token has;
weights tied or not; the type that the files hold.
"""

import json
from collections.abc import Callable
from pathlib import Path

import torch
from conftest import CORPUS
from tokenizers import (
    BertWordPieceTokenizer,
    Tokenizer,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from transformers import (
    DistilBertConfig,
    DistilBertForMaskedLM,
    DistilBertTokenizerFast,
    GPT2Config,
    GPT2LMHeadModel,
    GPT2Tokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaTokenizer,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen2Tokenizer,
    Starcoder2Config,
    Starcoder2ForCausalLM,
)

END = "<|endoftext|>"
CHAT = ["<|im_start|>", "<|im_end|>"]
LITTLE: dict[str, object] = {  # parameters of a flow of seconds
    "filter.test_share": 0.4,
    "label.snippets": 260,
    "sft.snippets": 16,
    "sft.batch_size": 8,
    "reward.labels": 24,
    "reward.pairs": 8,
    "ppo.prompts": 4,
    "ppo.updates": 2,
    "ppo.batch_size": 4,
    "ppo.group_size": 4,
    "ppo.num_minibatches": 2,
    "ppo.max_new_tokens": 8,
    "evaluate.prompts": 4,
    "evaluate.samples": 1,
    "skill.tests": "none",
    "evaluate.max_new_tokens": 8,
}
DECODER = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def write_qwen2(folder: Path) -> None:
    """As Qwen/Qwen2.5-Coder-0.5B: no bos, pad is eos, chat tokens, more rows
    than tokens, tied, bf16."""
    vocabulary, merges = byte_level_bpe()
    tokenizer = Qwen2Tokenizer(
        vocab=vocabulary, merges=merges, additional_special_tokens=CHAT
    )
    tokenizer.chat_template = "{{ messages[0]['content'] }}"
    shape = Qwen2Config(
        **DECODER,
        vocab_size=384,
        max_position_embeddings=32768,
        rope_theta=1e6,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    assert tokenizer.bos_token is None and tokenizer.pad_token == END
    assert len(tokenizer) < shape.vocab_size
    _write(Qwen2ForCausalLM, shape, tokenizer, folder, torch.bfloat16)


def write_gpt2(folder: Path) -> None:
    """As codeparrot/codeparrot-small: no pad, tied, fp32."""
    vocabulary, merges = byte_level_bpe([END])
    tokenizer = GPT2Tokenizer(vocab=vocabulary, merges=merges)
    shape = GPT2Config(
        vocab_size=len(tokenizer),
        n_embd=32,
        n_layer=2,
        n_head=2,
        n_positions=1024,
        scale_attn_by_inverse_layer_idx=True,
        reorder_and_upcast_attn=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    assert tokenizer.pad_token is None
    _write(GPT2LMHeadModel, shape, tokenizer, folder)


def write_llama(folder: Path) -> None:
    """As TinyLlama: sentencepiece's BPE, a bos, no pad, untied, bf16; in
    several files, as large models are.

    Its tokenizer writes a space before a text, and takes one away again.
    """
    vocabulary, merges = sentencepiece_bpe()
    tokenizer = LlamaTokenizer(vocab=vocabulary, merges=merges)
    shape = LlamaConfig(
        **DECODER,
        vocab_size=len(tokenizer),
        max_position_embeddings=2048,
        tie_word_embeddings=False,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    assert tokenizer.bos_token == "<s>" and tokenizer.pad_token is None
    _write(LlamaForCausalLM, shape, tokenizer, folder, torch.bfloat16, "50KB")


def write_starcoder2(folder: Path) -> None:
    """As bigcode/starcoder2-3b: eos is token 0, no pad, biases, a sliding
    window, dropout, untied."""
    vocabulary, merges = byte_level_bpe([END, "<fim_prefix>", "<fim_middle>"])
    tokenizer = GPT2Tokenizer(
        vocab=vocabulary,
        merges=merges,
        additional_special_tokens=["<fim_prefix>", "<fim_middle>"],
    )
    shape = Starcoder2Config(
        **DECODER,
        vocab_size=len(tokenizer),
        max_position_embeddings=16384,
        sliding_window=4096,
        use_bias=True,
        residual_dropout=0.1,
        embedding_dropout=0.1,
        attention_dropout=0.1,
        tie_word_embeddings=False,
        bos_token_id=0,
        eos_token_id=0,
    )
    assert tokenizer.eos_token_id == 0 and tokenizer.pad_token is None
    _write(Starcoder2ForCausalLM, shape, tokenizer, folder)


def write_distilbert(
    folder: Path, texts: list[str] = CORPUS, **more: object
) -> None:
    """As distilbert-base-uncased: an encoder, for a reward model alone."""
    words = BertWordPieceTokenizer(lowercase=True)
    words.train_from_iterator(texts, vocab_size=200, show_progress=False)
    folder.mkdir()
    (vocabulary,) = words.save_model(str(folder))
    tokenizer = DistilBertTokenizerFast(vocab=vocabulary)
    shape = DistilBertConfig(
        vocab_size=len(tokenizer),
        dim=32,
        hidden_dim=64,
        n_layers=2,
        n_heads=2,
        **more,
    )
    _write(DistilBertForMaskedLM, shape, tokenizer, folder)


BASES: dict[str, Callable[[Path], None]] = {
    "qwen2": write_qwen2,
    "gpt2": write_gpt2,
    "llama": write_llama,
    "starcoder2": write_starcoder2,
}


def byte_level_bpe(
    special: list[str] | None = None,
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """A vocabulary and its merges, trained on the corpus of the tests."""
    split = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return _train(Tokenizer(models.BPE()), split, special or [], 320)


def sentencepiece_bpe() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The same as sentencepiece has it: ▁ for a space, bytes as tokens."""
    single = [f"<0x{byte:02X}>" for byte in range(256)]
    return _train(
        Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True)),
        pre_tokenizers.Metaspace(split=False, prepend_scheme="first"),
        ["<unk>", "<s>", "</s>", *single],
        400,
    )


def lossy_tokenizer() -> PreTrainedTokenizerFast:
    """Lower case and single blanks, as an uncased WordPiece has it."""
    words = {"[UNK]": 0, "[EOS]": 1, "[PAD]": 2, "return": 3}
    lossy = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    lossy.normalizer = normalizers.Lowercase()
    lossy.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=lossy, eos_token="[EOS]", pad_token="[PAD]"
    )


def _train(
    bpe: Tokenizer,
    split: pre_tokenizers.PreTokenizer,
    special: list[str],
    size: int,
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    bpe.pre_tokenizer = split
    byte_level = isinstance(split, pre_tokenizers.ByteLevel)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=special,
        initial_alphabet=split.alphabet() if byte_level else [],
        show_progress=False,
    )
    bpe.train_from_iterator(CORPUS, trainer)
    model = json.loads(bpe.to_str())["model"]
    return model["vocab"], [tuple(pair) for pair in model["merges"]]


def _write(
    architecture: type,
    shape: object,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    dtype: torch.dtype = torch.float32,
    largest: str = "5GB",
) -> None:
    torch.manual_seed(0)
    model = architecture(shape).to(dtype)
    model.save_pretrained(folder, max_shard_size=largest)
    tokenizer.save_pretrained(folder)
