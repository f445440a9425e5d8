"""Training of the reward models: P(compliant), and a Bradley-Terry scorer.

Both start from the first layers of the SFT model with the policy's own
tokenizer, or from any other base such as DistilBERT, and train a head whole
and the rest by LoRA.

What Huang et al. (arXiv 2403.17031) found to matter, and where it is:
1. the head is drawn from N(0, 1 / (hidden + 1)): `new_scorer`;
2. dropout is off: `models.load_scorer`;
3. padding is on the right, pad is not eos, and a score does not depend on
   the padding: `batching.padded`, `scorers.score_texts`;
4. the pairwise reward has mean 0 on reference texts: `centre`.
"""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
import torch
from torch import nn
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Trainer,
    TrainingArguments,
)

from stylerl.config import RewardConfig
from stylerl.errors import DataError, ModelError
from stylerl.lm import batching
from stylerl.lm.adapters import Adapters
from stylerl.lm.encoding import load_tokenizer
from stylerl.lm.models import context_limit, load_scorer
from stylerl.reward.scorers import (
    CENTRE,
    CLASSIFIES,
    Scorer,
    encode_texts,
    score_texts,
)
from stylerl.reward_models.pairs import Preference
from stylerl.supervised import training
from stylerl.supervised.training import Log

LAYERS = 12  # of a deeper base: decision 24 has what the rest adds
LORA_RANK = 16  # for a reward, rank 1 to 32 is enough (arXiv 2106.09685, 7.2)
PULL = 0.01  # of the pairwise rewards towards 0
REFERENCES = 200  # chosen texts whose mean pairwise reward is made 0


def train_classifier(
    labels: pd.DataFrame,
    config: RewardConfig,
    seed: int,
    log: Log | None = None,
) -> Scorer:
    """Train P(compliant) on labelled texts: columns text and compliant.

    Binary cross-entropy on one logit; `score_texts` gives its sigmoid.

    Raises:
        DataError: the labels are all of one kind.
        ModelError: the base cannot be loaded.
        TrainingError: the loss is not finite.
    """
    if labels["compliant"].nunique() < 2:
        raise DataError(
            "the classifier needs compliant and violating labels; got "
            f"{int(labels['compliant'].sum())} compliant of {len(labels)}: "
            "raise label.snippets"
        )
    model, tokenizer = new_scorer(config, seed)
    adapters = _adapt(model, seed)
    model.config.problem_type = CLASSIFIES
    limit = min(config.max_tokens, context_limit(model.config))
    rows = encode_texts(tokenizer, labels["text"].tolist(), limit)
    examples = [
        {"input_ids": row, "labels": [float(label)]}
        for row, label in zip(rows, labels["compliant"], strict=True)
    ]

    def collate(rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        ids, mask = batching.padded(
            [row["input_ids"] for row in rows], tokenizer.pad_token_id
        )
        labels = torch.tensor([row["labels"] for row in rows])  # (B, 1)
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}

    trainer = Trainer(
        model=model,
        args=TrainingArguments(**training.training_arguments(config, seed)),
        train_dataset=examples,
        data_collator=collate,
    )
    # Trainer would add up the mean losses of the parts of a step.
    trainer.model_accepts_loss_kwargs = False
    training.train_with_progress(trainer, "reward", log, adapters)
    return _finished(model, tokenizer)


def train_pairwise(
    pairs: Sequence[Preference],
    config: RewardConfig,
    seed: int,
    log: Log | None = None,
) -> Scorer:
    """Train a Bradley-Terry scorer on pairs with TRL's RewardTrainer.

    Loss -log sigmoid(r(chosen) - r(rejected) - margin) (Bradley and Terry
    1952; Stiennon et al., arXiv 2009.01325; the margin: Llama 2, arXiv
    2307.09288, equation 2), plus a small pull of the rewards towards 0
    (arXiv 2312.09244, equation 2).  The margin is the pair's own.
    Afterwards the mean reward of the first REFERENCES chosen texts is 0.

    Raises:
        DataError: there is no pair.
        ModelError: the base cannot be loaded.
        TrainingError: the loss is not finite.
    """
    from datasets import Dataset
    from trl import RewardConfig as Arguments
    from trl import RewardTrainer

    if not pairs:
        raise DataError(
            "the pairwise model needs compliant snippets to make pairs of; "
            "got none: raise label.snippets"
        )
    model, tokenizer = new_scorer(config, seed)
    adapters = _adapt(model, seed)
    # Rows as TRL's collator reads them: ids of both texts, and a margin.
    limit = min(config.max_tokens, context_limit(model.config))
    chosen = encode_texts(tokenizer, [pair.chosen for pair in pairs], limit)
    rejected = encode_texts(
        tokenizer, [pair.rejected for pair in pairs], limit
    )
    dataset = Dataset.from_dict(
        {
            "chosen_ids": chosen,
            "rejected_ids": rejected,
            "length": [len(row) for row in chosen],
            "margin": [pair.margin for pair in pairs],
        }
    )
    trainer = RewardTrainer(
        model=model,
        args=Arguments(
            **training.training_arguments(config, seed, texts=2),
            max_length=None,
            remove_unused_columns=False,  # "length" groups the batches
            center_rewards_coefficient=PULL,
        ),
        train_dataset=dataset,
        processing_class=tokenizer,
    )
    training.train_with_progress(trainer, "reward", log, adapters)
    scorer = _finished(model, tokenizer)
    references = [pair.chosen for pair in pairs[:REFERENCES]]
    centre(scorer, references, config.batch_size)
    return scorer


def new_scorer(config: RewardConfig, seed: int) -> Scorer:
    """The base model's first LAYERS under a fresh head of one output.

    Raises:
        ModelError: the base cannot be loaded or cut, or has no linear
            head.
    """
    tokenizer = load_tokenizer(config.base)
    model = load_scorer(config.base, tokenizer=tokenizer, new_head=True)
    _cut(model)
    head = _head(model)
    generator = torch.Generator().manual_seed(seed)
    std = 1 / math.sqrt(head.in_features + 1)
    nn.init.normal_(head.weight, std=std, generator=generator)
    if head.bias is not None:
        nn.init.zeros_(head.bias)
    return Scorer(model, tokenizer)


def _cut(model: PreTrainedModel) -> None:
    """Drop the layers above the first LAYERS, in model and config.

    Raises:
        ModelError: the model is deeper, and its layers are in no list.
    """
    depth = model.config.num_hidden_layers
    if depth <= LAYERS:
        return
    for module in model.modules():
        for name, layers in module.named_children():
            if isinstance(layers, nn.ModuleList) and len(layers) == depth:
                setattr(module, name, layers[:LAYERS])
                model.config.num_hidden_layers = LAYERS
                if kinds := getattr(model.config, "layer_types", None):
                    model.config.layer_types = kinds[:LAYERS]
                return
    raise ModelError(
        f"a reward model is the first {LAYERS} layers of its base; "
        f"{type(model).__name__} has {depth}, and no list of them to cut: "
        "choose a GPT-2, Llama, BERT or similar base"
    )


def _head(model: PreTrainedModel) -> nn.Linear:
    """The layer whose one number is the reward."""
    heads = [
        module
        for module in model.modules()
        if isinstance(module, nn.Linear) and module.out_features == 1
    ]
    if len(heads) != 1:
        raise ModelError(
            "a reward model needs one linear output; "
            f"{type(model).__name__} has {len(heads)}: choose a GPT-2, "
            "Llama, BERT or similar base"
        )
    return heads[0]


def _adapt(model: PreTrainedModel, seed: int) -> Adapters:
    """Train a model's adapters and head, and nothing else of it."""
    adapters = training.adapt(model, LORA_RANK, seed)
    _head(model).float().requires_grad_(True)
    return adapters


def _finished(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> Scorer:
    """A trained model as it will be loaded: its head cast like the rest."""
    _head(model).to(model.dtype)
    return Scorer(model.eval(), tokenizer)


def centre(scorer: Scorer, references: Sequence[str], batch_size: int) -> None:
    """Make the mean reward of the reference texts 0.

    The constant goes to the model's config, because the stock head of a
    language model has no bias; `score_texts` subtracts it.
    """
    setattr(scorer.model.config, CENTRE, 0.0)
    scores = score_texts(*scorer, references, batch_size)
    setattr(scorer.model.config, CENTRE, float(scores.mean()))
