"""Models: a tokenizer, a language model, a scorer; loaded and saved.

Everything is a stock transformers model in one folder (config.json,
model.safetensors, tokenizer.json), loaded without remote code and without
pickle, in fp32, with every dropout off: PPO's ratio is 1 before the first
step only if the same tokens give the same log-probabilities twice.  Four
architectures are tested, each with its own tokenizer: Llama, GPT-2, Qwen2 and
StarCoder2; any decoder whose logits are its output embedding of the last
hidden state works.
"""

import copy
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from weakref import WeakKeyDictionary

import torch
from safetensors import safe_open
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.activations import NewGELUActivation
from transformers.utils import logging

from stylerl.errors import DiskError, ModelError
from stylerl.storage import (
    read_json,
    rehearse,
    replacing,
    write_json,
    writing,
)

PAD_TOKEN = "<|pad|>"
NO_TEXT = "\U0010ffff"  # no character
SPACED = "    x  = 1\n\n\ty\n"  # what a tokenizer of code keeps
ATTENTION = {"full_attention", "sliding_attention", "chunked_attention"}


def load_tokenizer(
    name: str | Path, revision: str = "main"
) -> PreTrainedTokenizerBase:
    """Load a tokenizer whose pad token exists and is never eos.

    A tokenizer without a pad token of its own gets `<|pad|>` appended;
    hand it to `load_causal_lm`, which then grows the embedding.  None puts a
    space before a text, as Llama's does: a completion is a text of its own,
    and one space less is another indentation.

    Raises:
        ModelError: the tokenizer cannot be found, or has no eos token.
    """
    tokenizer = _from_pretrained(AutoTokenizer, name, revision)
    if _round_trip(tokenizer) != SPACED:
        bare = _from_pretrained(
            AutoTokenizer, name, revision, add_prefix_space=False
        )
        tokenizer = bare if _round_trip(bare) == SPACED else tokenizer
    if tokenizer.eos_token_id is None and tokenizer.sep_token is not None:
        # An encoder's tokenizer, such as BERT's: [CLS] text [SEP].
        tokenizer.bos_token = tokenizer.cls_token
        tokenizer.eos_token = tokenizer.sep_token
    if tokenizer.eos_token_id is None:
        raise ModelError(
            f"the tokenizer of {name} must have an eos token: a completion "
            "ends with it"
        )
    if tokenizer.pad_token_id in (None, tokenizer.eos_token_id):
        tokenizer.add_special_tokens({"pad_token": PAD_TOKEN})
    tokenizer.padding_side = "left"
    loaded: PreTrainedTokenizerBase = tokenizer
    return loaded


def load_causal_lm(
    name: str | Path,
    revision: str = "main",
    tokenizer: PreTrainedTokenizerBase | None = None,
) -> PreTrainedModel:
    """Load a causal language model in fp32, dropout off, in eval mode.

    With `tokenizer`, the embedding is grown to its length and the config
    takes over its pad and eos ids.

    Raises:
        ModelError: the model cannot be found or loaded, changes its logits
            after the output embedding, or its tokenizer does not give white
            space back.
    """
    model = _load_model(
        AutoModelForCausalLM, name, revision, attn_implementation="sdpa"
    )
    check_logits(model, name)
    if tokenizer is not None:
        if (back := _round_trip(tokenizer)) != SPACED:
            raise ModelError(
                "a tokenizer of code must give white space back; that of "
                f"{name} makes {back!r} of {SPACED!r}: choose a base with a "
                "byte-level BPE"
            )
        fit_to_tokenizer(model, tokenizer)
    return model


def _round_trip(tokenizer: PreTrainedTokenizerBase) -> str:
    """`SPACED`, encoded and decoded."""
    ids = encode_code(tokenizer, SPACED)
    return str(tokenizer.decode(ids, clean_up_tokenization_spaces=False))


def load_scorer(
    name: str | Path,
    revision: str = "main",
    tokenizer: PreTrainedTokenizerBase | None = None,
) -> PreTrainedModel:
    """Load a sequence classifier with one output, dropout off.

    The head is new, drawn from torch's global generator, when `name` is a
    language model.

    Raises:
        ModelError: the model cannot be found or loaded.
    """
    model = _load_model(AutoModelForSequenceClassification, name, revision)
    if tokenizer is not None:
        fit_to_tokenizer(model, tokenizer)
    return model


def fit_to_tokenizer(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    """Give every token an embedding, and the config the tokenizer's ids.

    New rows are the mean of the old ones: unlike transformers' own draw
    they are the same on every run.
    """
    old = vocabulary_size(model)
    if len(tokenizer) > old:
        _untie_what_differs(model)
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
        embeddings: list[Any] = [
            model.get_input_embeddings(),
            model.get_output_embeddings(),
        ]
        for embedding in embeddings:
            if embedding is not None:
                weight = embedding.weight.data
                weight[old:] = weight[:old].mean(dim=0)
    for config in (model.config, getattr(model, "generation_config", None)):
        if config is not None:
            config.pad_token_id = tokenizer.pad_token_id
            config.eos_token_id = tokenizer.eos_token_id
            config.bos_token_id = tokenizer.bos_token_id


def _untie_what_differs(model: PreTrainedModel) -> None:
    """Believe the file where it has a head that its config calls tied.

    transformers loads such a head, and replaces it by the embedding when
    either is resized.
    """
    one: Any = model.get_input_embeddings()
    other: Any = model.get_output_embeddings()
    if other is not None and one.weight is not other.weight:
        model.config.tie_word_embeddings = False


def save_model(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    dtype: torch.dtype | None = None,
) -> None:
    """Write model and tokenizer to one folder, completely or not at all.

    `dtype`, such as `torch.bfloat16`, is what the file holds; the model in
    memory keeps its own.
    """
    with replacing(Path(folder)) as scratch:
        write_model(model, tokenizer, scratch, dtype)


def rehearse_saving(
    source: str | Path, folders: Sequence[Path], files: Sequence[Path] = ()
) -> None:
    """Try what can fail when models are saved, before they are trained.

    Args:
        source: the folder of the model to start from.
        folders: where the trained ones will be written.
        files: what else will be.

    Raises:
        DiskError: there is no room for as many weights, or one of these
            cannot be written.
        ModelError: the tokenizer cannot be loaded, or not saved.
    """
    tokenizer = load_tokenizer(source)
    for path in (*folders, *files):
        rehearse(path)
    for folder in folders:
        if folder.exists() and not folder.is_dir():
            raise DiskError(
                f"{folder} must be a folder, for the model that is trained; "
                "it is a file: remove it"
            )
    parent = folders[0].parent
    with (
        writing(parent),
        TemporaryDirectory(dir=parent, suffix=".partial") as tried,
    ):
        try:
            tokenizer.save_pretrained(tried)
        except OSError:
            raise
        except Exception as error:  # as its files have it
            raise ModelError(
                f"a model's tokenizer must be one that can be saved; that of "
                f"{source} is not ({error}): mend its files"
            ) from error
    weights = Path(source).expanduser().glob("*.safetensors")
    # Twice: a file may hold bf16, and what is trained be fp32.
    needed = 2 * len(folders) * sum(file.stat().st_size for file in weights)
    free = shutil.disk_usage(parent).free
    if free < needed:
        raise DiskError(
            f"what is trained from {source} takes up to "
            f"{needed / 2**30:.2f} GiB; {parent} has {free / 2**30:.2f} GiB "
            "left: make room, `dvc gc --workspace` drops the results of "
            "earlier parameters"
        )


def write_model(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    scratch: Path,
    dtype: torch.dtype | None = None,
) -> None:
    """Fill a folder that the caller puts into place; see `save_model`.

    Adapters are left out: their layers hold the merged weights.  Sampling
    settings are left out too: those of some bases cannot be saved.
    """
    if model.can_generate():
        model.generation_config = GenerationConfig(
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    state = _cast(model.state_dict(), dtype or model.dtype)
    state = {k: v for k, v in state.items() if ".lora_" not in k}
    with quiet():
        model.save_pretrained(scratch, state_dict=state)
    if dtype:
        config = read_json(scratch / "config.json")
        config["dtype"] = str(dtype).removeprefix("torch.")
        write_json(scratch / "config.json", config)
    tokenizer.save_pretrained(scratch)


def bf16_copy(model: PreTrainedModel) -> PreTrainedModel:
    """A copy to sample from, whose weights are bfloat16.

    No copy in fp32 is made on the way.  Buffers keep their type, as
    `from_pretrained` has it: rotary frequencies that were rounded to bf16
    would turn by another angle, the more the longer the text.
    """
    cast = {
        id(weight): nn.Parameter(weight.detach().bfloat16(), False)
        for weight in model.parameters()
    }
    return copy.deepcopy(model, cast)  # the copies are what is found there


def cast_weights(model: PreTrainedModel, dtype: torch.dtype) -> None:
    """Change the type of every weight, in place; buffers keep theirs."""
    for weight in model.parameters():
        weight.data = weight.data.to(dtype)


def tag_with_judge(model: PreTrainedModel, judge: str | None) -> None:
    """Record whose verdicts a model is trained on: `judge` in config.json.

    The judge's identity, or None where it is not known; models under
    different judges are not compared without a warning.
    """
    model.config.judge = judge


def positions(name: str | Path, revision: str = "main") -> int | None:
    """How many tokens a model can hold; None where it does not say.

    Raises:
        ModelError: it cannot be found.
    """
    return context_limit(_from_pretrained(AutoConfig, name, revision))


def context_limit(config: PreTrainedConfig) -> int | None:
    """Tokens of a text: a model's positions, or its attention's window.

    Beyond the window a token would not see all that is before it, which
    neither sampler nor trainer computes.
    """
    limits = [getattr(config, "max_position_embeddings", None)]
    if getattr(config, "use_sliding_window", True):
        limits.append(getattr(config, "sliding_window", None))
    return min(filter(None, limits), default=None)


def encode_prompt(
    tokenizer: PreTrainedTokenizerBase, text: str, context: Sequence[int] = ()
) -> list[int]:
    """Token ids of a prompt, begun as every document in training was.

    The first id is the bos token or, where there is none, eos; then comes
    what is given before the prompt, and the prompt.
    """
    first = tokenizer.bos_token_id
    if first is None:
        first = tokenizer.eos_token_id
    ids = encode_code(tokenizer, text)
    return [*([] if first is None else [first]), *context, *ids]


def encode_code(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Token ids of a text; one that looks like a control token stays text.

    `return "<|im_end|>"` would otherwise hold the token that ends a text.
    """
    if not hasattr(tokenizer, "backend_tokenizer"):
        ids: list[int] = tokenizer.encode(
            text, add_special_tokens=False, split_special_tokens=True
        )
        return ids
    if tokenizer not in _PLAIN:
        _PLAIN[tokenizer] = _without_control(tokenizer.backend_tokenizer)
    return list(_PLAIN[tokenizer].encode(text, add_special_tokens=False).ids)


_PLAIN: WeakKeyDictionary[PreTrainedTokenizerBase, Tokenizer] = (
    WeakKeyDictionary()
)


def _without_control(backend: Tokenizer) -> Tokenizer:
    """A tokenizer's copy that knows no added token but blanks.

    Some are not called special, as Phi-3's `</s>`, which takes the line end
    after it along.  Those that the vocabulary has are dropped, others get a
    name that no text has, so that each keeps its id.
    """
    parts = json.loads(backend.to_str())
    known = {
        token if isinstance(token, str) else token[0]
        for token in parts["model"]["vocab"]
    }
    parts["added_tokens"] = [
        token
        if token["content"].isspace()
        else token | {"content": f"{NO_TEXT}{token['id']}", "special": False}
        for token in parts["added_tokens"]
        if token["content"].isspace() or token["content"] not in known
    ]
    if (parts["normalizer"] or {}).get("type") == "NFC":  # as Qwen2's
        parts["normalizer"] = None  # it writes é for e and an accent
    plain = Tokenizer.from_str(json.dumps(parts))
    plain.no_padding()
    plain.no_truncation()
    return plain


def vocabulary_size(model: PreTrainedModel) -> int:
    """Rows of the input embedding."""
    embedding: Any = model.get_input_embeddings()
    rows: int = embedding.weight.shape[0]
    return rows


def disable_dropout(config: PreTrainedConfig) -> None:
    """Set every dropout probability of a config to zero."""
    for name, value in config.to_dict().items():
        if "drop" in name and isinstance(value, float):
            setattr(config, name, 0.0)


def fuse_gelu(model: PreTrainedModel) -> None:
    """Compute GPT-2's tanh GELU, the same function, by one kernel.

    transformers writes it as five operations, a sixth of the training time
    on a CPU.
    """
    for module in model.modules():
        for name, child in module.named_children():
            if isinstance(child, NewGELUActivation):
                setattr(module, name, nn.GELU(approximate="tanh"))


def _load_model(
    factory: Any, name: str | Path, revision: str, **options: Any
) -> PreTrainedModel:
    """Load a model by its Auto class: fp32, safetensors, no dropout.

    A weight that the file lacks is an error, but for a classifier's head,
    which may be new.
    """
    whole = factory is AutoModelForCausalLM
    shape = {} if whole else {"num_labels": 1}
    config = _from_pretrained(AutoConfig, name, revision, **shape)
    disable_dropout(config)
    config.return_dict = True
    if whole:  # how we sample is ours to say: the file is not read
        options["generation_config"] = GenerationConfig()
    model: PreTrainedModel
    model, report = _from_pretrained(
        factory,
        name,
        revision,
        config=config,
        dtype=torch.float32,
        use_safetensors=True,
        output_loading_info=True,
        **options,
    )
    kind, trunk = type(model).__name__, f"{model.base_model_prefix}."
    if missing := sorted(
        k for k in report["missing_keys"] if whole or k.startswith(trunk)
    ):
        raise ModelError(
            f"{name} must hold every weight of {kind}; {len(missing)} are "
            f"missing, such as {missing[0]}"
        )
    if others := sorted(
        k
        for k in report["unexpected_keys"]
        if k.startswith(trunk) and k.endswith(".weight")
    ):
        raise ModelError(
            f"{name} must hold the weights of {kind} as its config.json "
            f"describes it; {len(others)} are others, such as {others[0]}"
        )
    _check_types(Path(name).expanduser())
    check_finite(model, name)
    fuse_gelu(model)
    return model.eval()


def check_finite(model: PreTrainedModel, source: str | Path = "") -> None:
    """Check the weights of a model, from a source that errors name.

    Raises:
        ModelError: one is NaN or infinite.
    """
    source = source or type(model).__name__
    for name, weight in model.named_parameters():
        if not weight.isfinite().all():
            raise ModelError(
                f"weights must be finite; those of {source} hold NaN or "
                f"infinity, in {name}: load it again, in fp32 or bf16, or run "
                "the stage that writes it again"
            )


def check_logits(model: PreTrainedModel, source: str | Path = "") -> None:
    """Check that logits are the output embedding of the last states.

    Sampling and scoring compute them so, where they are needed; some
    families scale or cap them on top.  Between the tokens nothing but keys
    and values is kept, so that layers of attention alone will do.

    Raises:
        ModelError: the model does otherwise.
    """
    text = model.config.get_text_config()
    kinds = {*(getattr(text, "layer_types", None) or ())} - ATTENTION
    if getattr(model, "_is_stateful", False):
        kinds.add("a state of its own")
    if kinds:
        raise ModelError(
            "every layer must be one of attention; "
            f"{source or type(model).__name__} has {', '.join(sorted(kinds))}"
            ": choose a Llama, GPT-2, Qwen2 or StarCoder2 model"
        )
    for name in ("logits_scaling", "logit_scale", "final_logit_softcapping"):
        value = getattr(model.config, name, None)
        if value not in (None, 1):
            raise ModelError(
                "logits must be the output embedding of the last states; "
                f"{source or type(model).__name__} changes them by its "
                f"config's {name}: {value}: choose a Llama, GPT-2, Qwen2 or "
                "StarCoder2 model"
            )


def _check_types(folder: Path) -> None:
    """Raise ModelError where a folder's weights are no fractions."""
    for file in sorted(folder.glob("model*.safetensors")):
        with safe_open(file, "pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118 - it is no mapping
                kind = tensors.get_slice(name).get_dtype()
                if name.endswith(".weight") and "F" not in kind:
                    raise ModelError(
                        f"weights must be floating-point numbers; {name} of "
                        f"{file} is of type {kind}: run the stage that "
                        "writes it again"
                    )


def _cast(state: dict[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """Change the type of every weight; tied weights stay one tensor."""
    cast = {t.data_ptr(): t.to(dtype) for t in state.values()}
    return {name: cast[t.data_ptr()] for name, t in state.items()}


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers' bars and load reports out of our output."""
    verbosity, bars = (
        logging.get_verbosity(),
        logging.is_progress_bar_enabled(),
    )
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _from_pretrained(
    factory: Any, name: str | Path, revision: str, **options: Any
) -> Any:
    """Call `factory.from_pretrained`, or say in one sentence why not."""
    try:
        folder = Path(name).expanduser()
        local = folder.is_dir()
    except (OSError, RuntimeError) as error:  # ~nobody, a name too long
        raise ModelError(
            f"a model must be a folder or a hub name; got {name}: {error}"
        ) from error
    if not local and _is_path(str(name)):
        raise ModelError(
            f"model folder {name} does not exist; run the stage that writes "
            "it, or give a hub name"
        )
    if local:
        _check_files(folder, needs_weights="use_safetensors" in options)
    load: Callable[..., Any] = factory.from_pretrained
    try:
        with quiet():
            return load(
                str(folder) if local else str(name),
                revision=revision,
                trust_remote_code=False,
                local_files_only=local,
                **options,
            )
    except Exception as error:  # a damaged file raises any of them
        said = str(error).strip() or type(error).__name__
        cause = said.splitlines()[0][:300]
        raise ModelError(
            f"cannot load {name}: {cause}; if a stage wrote it, run that "
            "again, else take a Llama, GPT-2, Qwen2 or StarCoder2 model"
            if local
            else f"cannot load {name} from the hub (not reachable, or no "
            f"such model at revision {revision}): give a local folder with "
            f"config.json and model.safetensors; the cause was: {cause}"
        ) from error


def _is_path(name: str) -> bool:
    """True where `name` cannot be a hub name, or is one of our outputs."""
    return (
        name.startswith((".", "~", os.sep, "artifacts/", "checkpoints/"))
        or name.count("/") > 1
    )


def _check_files(folder: Path, needs_weights: bool) -> None:
    """Raise ModelError when a model folder lacks a file."""
    wanted = ["config.json"]
    if (
        needs_weights
        and not (folder / "model.safetensors.index.json").exists()
    ):
        wanted.append("model.safetensors")
    for file in wanted:
        if not (folder / file).exists():
            raise ModelError(
                f"a model folder must hold {', '.join(wanted)}; {folder} "
                f"has no {file}: run the stage that writes it again, or "
                "save the model with save_pretrained"
            )
