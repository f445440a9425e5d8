"""`stylerl prefer`: ask a person which of two completions is better.

Shows a prompt and two completions, takes A, B or a tie and how sure the
person is, and saves each answer before the next question; prefer_web.py does
so in a browser.  What has been answered is not asked again.  Nothing on the
screen tells which text is whose.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from rich.console import Console, Group
from rich.panel import Panel

from stylerl import draws, storage
from stylerl.cli import prefer_web
from stylerl.cli.prefer_web import Session
from stylerl.config import Params, paths
from stylerl.data import places
from stylerl.data.prompts import unread_prompts
from stylerl.errors import DataError
from stylerl.pipeline import workspace
from stylerl.reward_models import preferences
from stylerl.reward_models.preferences import CONFIDENCE, Pair

COLUMN = 56  # of a terminal: a text this wide is never below the other
KEYS = {"a": "a", "b": "b", "t": "tie"}
QUIT = "q"
POOL = 100  # training prompts to sample pairs for
BETTER = f"Which is better? a, b, t for a tie, {QUIT} to quit: "
SCALE = ", ".join(f"{n} {words}" for n, words in CONFIDENCE.items())
SURE = f"How sure? {SCALE}: "

Ask = Callable[[str], str]  # shows a question, returns what was typed


def run(annotator: str, source: Path | None, web: bool) -> None:
    """Ask until all is answered or the person quits.

    Pairs are those of the file `source`, or sampled for training prompts;
    `web` asks in a browser instead of the terminal.

    Raises:
        ConfigError: params.yaml breaks a rule.
        DataError: there is nobody at the terminal, or nothing to ask.
        ModelError: a model cannot be loaded.
    """
    if not (web or (sys.stdin and sys.stdin.isatty())):
        raise DataError(
            "stylerl prefer asks a person, so its input must be a terminal; "
            "start it from one, without a pipe (--web needs none)"
        )
    params, console = workspace.settings(), Console()
    path = preferences.FILE
    say = partial(console.print, markup=False, highlight=False)
    pairs = preferences.read_pairs(source) if source else sample(params)
    if not pairs:
        raise DataError(
            f"{source or 'the SFT model'} must give a pair of two different "
            "texts; there is none: name another file, or sample again"
        )
    before = preferences.load(path) if path.exists() else []
    done = {answer.pair for answer in before if answer.annotator == annotator}
    waiting = [pair for pair in pairs if pair not in done]
    say(
        f"{len(waiting)} of {len(pairs)} pairs wait for {annotator}; answers "
        f"go to {path}"
    )
    session = Session(waiting, annotator, params.seed, path)
    if web:
        prefer_web.serve(session)
    else:
        ask_all(session, console, input)
    say(f"{session.given} answers saved to {path}")


def ask_all(session: Session, console: Console, ask: Ask) -> None:
    """Put each pair to the person and save what they say.

    Ends early at `q` or at the end of the input; what was answered stays.
    """
    while session.waiting:
        title = f"pair {session.given + 1} of {session.total}"
        prompt, sides = session.waiting[0].prompt, session.sides()
        console.print(view(prompt, sides, title, console.width))
        try:
            better = KEYS[_one_of(ask, BETTER, KEYS)]
            sure = _one_of(ask, SURE, map(str, CONFIDENCE))
        except EOFError:
            return
        session.answer(better, sure)


def view(prompt: str, sides: Sequence[str], title: str, width: int) -> Group:
    """Prompt, A and B: side by side unless lines would break."""
    from stylerl.cli.complete_command import highlight, side_by_side

    texts = [text.removeprefix("\n") for text in sides]
    longest = max(len(line) for text in texts for line in text.split("\n"))
    column = min(longest + 4, COLUMN)
    first, *panels = (
        Panel(highlight(text), title=name, title_align="left")
        for name, text in zip((title, "A", "B"), (prompt, *texts), strict=True)
    )
    return Group(first, side_by_side(panels, width, column))


def _one_of(ask: Ask, question: str, answers: Iterable[str]) -> str:
    """Ask until one of the answers is given; EOFError for QUIT."""
    allowed = [*answers, QUIT]
    while (typed := ask(question).strip().lower()) not in allowed:
        question = f"Please type {', '.join(allowed)}: "
    if typed == QUIT:
        raise EOFError
    return typed


def sample(params: Params, count: int = POOL) -> list[Pair]:
    """A pair for each of `count` training prompts, where two differ.

    One completion is the SFT model's and one PPO's; before there is a PPO
    model both are the SFT model's.  Completions that were cut are left out.

    Raises:
        DataError: there are no models, no prompts, or no pairs.
    """
    from stylerl.lm import context, encoding, models, sampling

    present = [folder for folder in (paths.SFT, paths.PPO) if folder.is_dir()]
    if not present:
        raise DataError(
            f"pairs are sampled from {paths.SFT}, which does not exist; "
            "`stylerl run` makes it, or name a file: --from pairs.jsonl"
        )
    labels = storage.read_table(paths.LABELS)
    where = places.places_of_labels(paths.FILTER, labels)
    above = {prompt: place.above for prompt, place in where.items()}
    room = params.ppo.max_new_tokens + params.sft.context
    fits = sampling.fits_all(present, room)
    unread = unread_prompts(labels, "train", params.seed)
    prompts = [*islice(filter(fits, unread), count)]
    if not prompts:
        raise DataError(
            "pairs need prompts: violating functions of the training split; "
            f"{paths.LABELS} has none that fits: raise label.snippets, lower "
            "ppo.max_new_tokens, or name a file: --from pairs.jsonl"
        )
    # One completion a prompt from each model, by random streams of their own.
    drawn = []
    for side, folder in enumerate((present[0], present[-1])):
        tokenizer = encoding.load_tokenizer(folder)
        model = models.load_causal_lm(folder, tokenizer=tokenizer)
        budget = context.context_of(model)
        drawn.append(
            sampling.generate(
                model,
                tokenizer,
                prompts,
                **params.ppo.sampling,
                encode=context.PromptEncoder(tokenizer, budget, above),
                seed=draws.seed_of(params.seed, f"prefer {side}"),
                desc=f"{folder.name}: completions",
            )
        )
    one, other = drawn
    # What was cut, or is the same twice, has no better side.
    pairs = [
        Pair.of(prompt, one.texts[i], other.texts[i])
        for i, prompt in enumerate(prompts)
        if one.finished[i] and other.finished[i]
        if one.texts[i] != other.texts[i]
    ]
    if not pairs:
        raise DataError(
            "a pair needs two completions that end and differ; "
            f"{len(prompts)} prompts gave none: raise ppo.max_new_tokens"
        )
    return pairs
