"""A GGUF file of a model, for llama.cpp.

Llamas with a byte-level BPE are written.  llama.cpp turns the pair of rows
(2i, 2i + 1) of a head where transformers turns (i, i + d/2), so the rows of q
and k change places.  What a file cannot say, such as another activation, is
refused.

The `gguf` package writes the container: pip install 'stylerl[gguf]'.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from stylerl import storage
from stylerl.errors import ModelError
from stylerl.lm.encoding import load_tokenizer
from stylerl.lm.models import load_causal_lm

# Of a matrix; vectors are f32.  The last two round 32 weights to a scale, as
# SmolLM2's own file does; q4_0, which has no offset, parted from transformers
# six times as early.
KINDS = ("bf16", "f32", "q8_0", "q4_1")
NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5  # GGUF's types of tokens


def export(name: str, folder: Path, kind: str = KINDS[0]) -> Path:
    """Write a model's GGUF file; where it is.

    Args:
        name: a model folder, or a hub name.
        folder: where it is written, made where there is none.
        kind: of KINDS; the name of the file has all but the first.

    Raises:
        ModelError: there is no such model, or no GGUF file can hold it.
        DiskError: a file cannot be written.
    """
    tokenizer = load_tokenizer(name)
    model = load_causal_lm(name, tokenizer=tokenizer)
    suffix = "" if kind == KINDS[0] else f"-{kind}"
    path = folder / f"{Path(name).resolve().name}{suffix}.gguf"
    write(model, tokenizer, path, kind)
    return path


def write(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    path: Path,
    kind: str = KINDS[0],
) -> None:
    """Write `path`, completely or not at all.

    Args:
        model: from `load_causal_lm`, given this tokenizer.
        tokenizer: a byte-level BPE.
        path: of the file.
        kind: of KINDS, what its matrices are.

    Raises:
        ModelError: the file cannot hold such a model, tokenizer or kind.
        DiskError: the file cannot be written.
    """
    from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType

    weights = dict(tensors(model))
    with storage.replacing(path) as scratch:
        writer = GGUFWriter(scratch, model.config.model_type)
        writer.add_name(path.stem)
        share = "ALL" if kind == "f32" else "MOSTLY"
        writer.add_file_type(LlamaFileType[f"{share}_{kind.upper()}"])
        _describe(writer, model.config)
        _add_vocabulary(writer, tokenizer, len(weights["token_embd.weight"]))
        for name, tensor in weights.items():
            chosen = kind if tensor.ndim > 1 else "f32"
            if kind == "q4_1" and name == "token_embd.weight":
                chosen = "q8_0"  # it is the output as well
            writer.add_tensor(
                name,
                _data(name, tensor, chosen),
                raw_dtype=GGMLQuantizationType[chosen.upper()],
            )
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def tensors(model: PreTrainedModel) -> Iterator[tuple[str, Tensor]]:
    """Every weight by its name in GGUF, fp32, as llama.cpp reads it.

    Raises:
        ModelError: llama.cpp would compute something else with them.
    """
    from gguf import MODEL_ARCH, get_tensor_name_map

    config: Any = model.config
    _check(config)
    names = get_tensor_name_map(MODEL_ARCH.LLAMA, config.num_hidden_layers)
    heads = {
        "attn_q": config.num_attention_heads,
        "attn_k": config.num_key_value_heads,
    }
    embedding: Any = model.get_input_embeddings()
    tied = embedding.weight.data_ptr()
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and weight.data_ptr() == tied:
            continue
        ours = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if ours is None:
            raise ModelError(
                f"GGUF has a place for each weight of a stock Llama; {name} "
                "is none: save the model without it"
            )
        tensor = weight.detach().float().cpu()
        if count := heads.get(ours.split(".")[-2]):
            tensor = interleaved(tensor, count)
        yield ours, tensor


def interleaved(rows: Tensor, heads: int) -> Tensor:
    """Rows (heads * d, ...) so that i and i + d/2 of a head are neighbours.

    Of a head with rows 0 1 2 3 come 0 2 1 3.
    """
    split = rows.reshape(heads, 2, -1, *rows.shape[1:])  # (H, 2, d/2, ...)
    return split.transpose(1, 2).reshape(rows.shape)


def _data(name: str, tensor: Tensor, kind: str) -> Any:
    """A tensor's bytes in a kind, as an array.

    Raises:
        ModelError: it cannot be cut into the kind's blocks.
    """
    from gguf import GGMLQuantizationType, quants

    try:
        return quants.quantize(
            tensor.numpy(), GGMLQuantizationType[kind.upper()]
        )
    except quants.QuantError as error:
        raise ModelError(
            f"each row of a matrix must be of whole blocks for {kind}; "
            f"{name} is not ({error}): take --dtype bf16"
        ) from error


def _check(config: Any) -> None:
    """Raise ModelError for what llama.cpp's graph of a Llama lacks."""
    rope = config.rope_parameters["rope_type"]
    facts = {  # what is, and what must be
        "model_type": (config.model_type, "llama"),
        "hidden_act": (config.hidden_act, "silu"),
        "rope_type": (rope, "default"),
    }
    for name, (value, wanted) in facts.items():
        if value != wanted:
            raise ModelError(
                f"a GGUF file needs {name} {wanted}; the model has {value}: "
                "use llama.cpp's own converter"
            )


def _describe(writer: Any, config: Any) -> None:
    """The model's shape, as metadata."""
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)


def _add_vocabulary(
    writer: Any, tokenizer: PreTrainedTokenizerBase, rows: int
) -> None:
    """Tokens and merges; a prompt begins as `encode_prompt` begins it."""
    backend: Any = tokenizer
    parts = json.loads(backend.backend_tokenizer.to_str())
    special = {
        index: CONTROL if token.special else USER_DEFINED
        for index, token in tokenizer.added_tokens_decoder.items()
    }
    known = {i: token for token, i in tokenizer.get_vocab().items()}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(splitter(parts))
    writer.add_vocab_size(rows)
    writer.add_token_list([known.get(i, f"[unused {i}]") for i in range(rows)])
    writer.add_token_types(
        [special.get(i, NORMAL if i in known else UNUSED) for i in range(rows)]
    )
    writer.add_token_merges([" ".join(m) for m in parts["model"]["merges"]])
    first = tokenizer.bos_token_id
    writer.add_bos_token_id(tokenizer.eos_token_id if first is None else first)
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_pad_token_id(tokenizer.pad_token_id)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)


def splitter(parts: Mapping[str, Any]) -> str:
    """llama.cpp's name of how a text is split before the merges.

    Raises:
        ModelError: none of those that are known here.
    """
    model, split = parts["model"], parts["pre_tokenizer"] or {}
    steps = split.get("pretokenizers", [split])
    bytes_ = {"add_prefix_space": False, "use_regex": True}
    digits = {"individual_digits": True}
    known = {"gpt-2": [bytes_], "starcoder": [digits, bytes_]}
    for name, wanted in known.items():
        if (
            model["type"] == "BPE"
            and not parts["normalizer"]
            and not model.get("ignore_merges")
            and len(steps) == len(wanted)
            and all(
                want.items() <= step.items()
                for want, step in zip(wanted, steps, strict=True)
            )
        ):
            return name
    raise ModelError(
        "a GGUF file is written of a byte-level BPE split as GPT-2's or "
        f"StarCoder's; this is {model['type']} with "
        f"{[step.get('type') for step in steps]}: use llama.cpp's own "
        "converter"
    )
