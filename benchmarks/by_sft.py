"""SFT on code that the fixer formatted, in place of its authors' layout."""

from collections.abc import Mapping

import pandas as pd

from stylerl import storage
from stylerl.config import Params, paths
from stylerl.data import places
from stylerl.evaluation.measurement.generations import LoadedModel
from stylerl.judge import Judge, fixer
from stylerl.judge.place import Place
from stylerl.lm.saving import tag_with_judge
from stylerl.supervised import sft


def run_sft(params: Params) -> LoadedModel:
    """As the stage `sft`, on bodies of functions as the fixer leaves them.

    They are not judged again.  What fits `sft.max_tokens` may be others.
    """
    labels = storage.read_table(paths.LABELS)
    clean = labels[labels["compliant"] & (labels["body_start"] > 0)]
    snippets = storage.read_table(paths.SNIPPETS)
    cut = snippets[snippets["id"].isin(clean["source_id"])]
    where = places.places(paths.FILES, cut)
    learnt = formatted(clean, where, Judge(params.judge))
    above = places.texts_above(paths.FILTER, learnt)
    tuned = sft.fine_tune(learnt, params.sft, params.seed, above=above)
    tag_with_judge(tuned.model, labels.attrs.get("judge"))
    return LoadedModel(tuned.model, tuned.tokenizer)


def formatted(
    labels: pd.DataFrame, where: Mapping[str, Place], judge: Judge
) -> pd.DataFrame:
    """Labels of functions, their bodies as the fixer leaves them.

    Args:
        labels: rows of functions of labels.parquet.
        where: their places, by the snippet's id.
        judge: whose guide the fixer keeps.
    """
    columns = ("source_id", "text", "body_start")
    rows = zip(*(labels[name] for name in columns), strict=True)
    items = [
        (where.get(name), text[:at], text[at:]) for name, text, at in rows
    ]
    bodies = fixer.fix(items, judge)
    pairs = zip(items, bodies, strict=True)
    return labels.assign(text=[head + body for (_, head, _), body in pairs])
