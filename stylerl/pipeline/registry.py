"""The registered model: a version for each policy, and which is champion.

Speaks to MLflow through tracking.py, and by best effort as it does: a registry
that does not answer costs no run.
"""

from collections.abc import Callable, Mapping

from stylerl.evaluation.promotion import ALREADY, Decision, Table
from stylerl.pipeline import store, tracking

MODEL = "stylerl"
CHAMPION = "champion"  # the alias of the version to serve
EVALUATION = "evaluation"  # a version's tag: the run that judged it


def register(
    run_id: str | None,
    folder: str,
    digest: str,
    tags: Mapping[str, str],
) -> str | None:
    """Register a policy, a copy of its folder; the version.

    A digest is registered once: a later run of the same bytes gets the
    version that is there.  The alias is `promote`'s to move.

    Args:
        run_id: the run that made the policy.
        folder: its folder.
        digest: of the folder.
        tags: of the version.
    """

    def find_or_add() -> str:
        known = tracking.connect().search_model_versions(
            f"name = '{MODEL}' and tags.digest = '{digest}'"
        )
        if known:
            return str(known[0].version)
        labels = {"digest": digest, "folder": folder, **tags}
        return tracking.add_version(MODEL, folder, run_id, labels)

    return store.asked(find_or_add, None)


def promote(
    version: str,
    evaluation: str,
    gate: Callable[[Table | None], Decision],
    scores: str = "",
) -> Decision | None:
    """Let `gate` say whether a version becomes champion; None if MLflow fails.

    The version's tags then hold the run that evaluated it and the decision,
    and its description the decision line by line and the scores.  A champion
    keeps the description that says why it became one.

    Args:
        version: of the registered model.
        evaluation: the run of its stage `evaluate`.
        gate: decides, given a way to read the champion's completions.
        scores: of the evaluation, as Markdown.
    """

    def decide() -> Decision | None:
        client = tracking.connect()
        holder = client.get_registered_model(MODEL).aliases.get(CHAMPION)
        if holder is None:
            decision = gate(None)
        elif str(holder) == version:
            decision = Decision([ALREADY])
        else:
            tags = client.get_model_version(MODEL, str(holder)).tags
            evaluated = tags.get(EVALUATION, "none")
            decision = gate(lambda: tracking.completions(evaluated))
        if decision.promoted:
            client.set_registered_model_alias(MODEL, CHAMPION, version)
        labels = {EVALUATION: evaluation, "promotion": decision.text}
        for name, value in labels.items():
            client.set_model_version_tag(MODEL, version, name, value)
        if decision.lines != [ALREADY]:
            about = f"{decision.markdown}\n{scores}"
            client.update_model_version(MODEL, version, about)
        return decision

    return store.asked(decide, None)
