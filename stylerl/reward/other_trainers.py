"""The reward of `ppo.reward` as a function of texts, for other trainers.

    from stylerl.reward.other_trainers import TextReward

    GRPOTrainer(model, reward_funcs=TextReward("params.yaml"), ...)

TRL's trainers call it with prompts, completions and every further column of
the data set.  Three are read, where they are there and not None:

    file_text, line   the file that the prompt was cut from, and its first row
                      there: the completion is then judged in this file, and
                      otherwise as a file of its own
    file_path         the file's name, which per-file-ignores look at
"""

import ast
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import PreTrainedTokenizerBase

from stylerl import config
from stylerl.config import Params
from stylerl.errors import DataError
from stylerl.judge import Judge
from stylerl.judge.names import tree_of
from stylerl.judge.place import File, Place
from stylerl.judge.positions import indent_of
from stylerl.judge.verdict import SNIPPET
from stylerl.lm.cut import whole_lines
from stylerl.reward import functions, grader, scorers
from stylerl.reward.functions import TokenReward
from stylerl.reward.grade import grade_of


class Origin(NamedTuple):
    """What a row of the data set says of its prompt, in these columns."""

    file_text: str | None
    line: int | None
    file_path: str | None


class Scored(NamedTuple):
    """What one completion is worth."""

    score: float
    tokens: Sequence[TokenReward]  # what of the score single tokens lost


class TextReward:
    """The reward for TRL's `GRPOTrainer` and `RLOOTrainer`."""

    __name__ = "stylerl"  # in the trainers' logs

    def __init__(
        self,
        params: Params | str | Path,
        tokenizer: PreTrainedTokenizerBase | None = None,
        reward_models: Path = Path("artifacts/reward"),
    ) -> None:
        """Start a judge, and load what `ppo.reward` names.

        Args:
            params: all parameters, or a file of them.
            tokenizer: the policy's.  With it a prompt may begin with its bos
                token, and a completion that was cut counts as in PPO; without
                it each counts as finished.
            reward_models: the folder with classifier/ and pairwise/.

        Raises:
            ConfigError: the parameters break a rule.
        """
        if not isinstance(params, Params):
            params = config.load(Path(params))
        self.params = params
        # What a prompt may begin with and is no code; what ends a completion.
        self.begin, self.ends = "", frozenset[int | None]()
        if tokenizer is not None:
            self.begin = str(tokenizer.bos_token or tokenizer.eos_token or "")
            self.ends = frozenset(
                (tokenizer.eos_token_id, tokenizer.pad_token_id)
            )
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.judge = Judge(params.judge)
        self.grader = grader.style_grader(
            self.judge,
            params.ppo.reward,
            reward_models,
            lambda folder: grader.learned_style(scorers.load(folder, device)),
        )

    def __call__(
        self,
        prompts: Sequence[str],
        completions: Sequence[str],
        completion_ids: Sequence[Sequence[int]] | None = None,
        **columns: Any,
    ) -> list[float]:
        """The sum of the parts for each completion, as in PPO.

        The arguments are those of `scored`.

        Raises:
            DataError: the file of a prompt does not hold it.
        """
        rows = self.scored(prompts, completions, completion_ids, **columns)
        return [row.score for row in rows]

    def scored(
        self,
        prompts: Sequence[str],
        completions: Sequence[str],
        completion_ids: Sequence[Sequence[int]] | None = None,
        **columns: Any,
    ) -> list[Scored]:
        """The score of each completion, and the part that tokens lost.

        Args:
            prompts: the code to continue.
            completions: the code that continues it.
            completion_ids: their tokens; where `ends` is known, one that was
                cut loses its last line and `ppo.missing_eos_penalty`.
            columns: those of the data set.

        Raises:
            DataError: a prompt is no text, or its file does not hold it.
        """
        # 1. What is judged: the code, less the line that was cut.
        count = len(prompts)
        for text in (*prompts, *completions):
            if not isinstance(text, str):
                raise DataError(
                    "prompts and completions must be texts, code and what "
                    f"continues it; got a {type(text).__name__}: take a data "
                    "set without conversations"
                )
        texts = [prompt.removeprefix(self.begin) for prompt in prompts]
        done = [True] * count
        if self.ends and completion_ids is not None:
            done = [
                not self.ends.isdisjoint(ids[-1:]) for ids in completion_ids
            ]
        judged = [
            text if end else whole_lines(text)
            for text, end in zip(completions, done, strict=True)
        ]
        # 2. The verdicts on it, where it stands.
        none = [None] * count
        columns_read = [columns.get(name, none) for name in Origin._fields]
        origins = map(Origin, *columns_read)
        places = map(_place, texts, origins)
        verdicts = self.judge.in_place(
            [*zip(places, texts, judged, strict=True)]
        )
        # 3. What each is worth.
        rows = zip(texts, judged, done, verdicts, strict=True)
        feedback = self.grader.feedback([grade_of(*row) for row in rows])
        missing = self.params.ppo.missing_eos_penalty
        rewards = functions.columns(feedback.reward, count)
        tokens: Sequence[Any] = [[]] * count
        if feedback.tokens and self.params.ppo.credit != "response":
            tokens = feedback.tokens
        scored = []
        for row in range(count):
            total = sum(values[row] for values in rewards.values())
            score = total - missing * (not done[row])
            scored.append(Scored(score, tokens[row]))
        return scored


@lru_cache(maxsize=1024)
def _place(prompt: str, origin: Origin) -> Place | None:
    """The place of a prompt in its file, if the data set gives one.

    Raises:
        DataError: it does not stand there.
    """
    text, line, path = origin
    if text is None or line is None:
        return None
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    # The last row of each function by its first; none, if nothing parses.
    tree = tree_of(text)
    ends = {
        node.lineno: node.end_lineno or node.lineno
        for node in (ast.walk(tree) if tree else ())
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    file = File(text.split("\n"), path or SNIPPET)
    lines = file.lines[line - 1 : ends.get(line, 0)]
    indent = indent_of("".join(lines[:1]))
    function = "".join(f"{row.removeprefix(indent)}\n" for row in lines)
    if not function.startswith(prompt.removesuffix("\n") + "\n"):
        raise DataError(
            "a prompt must be the first rows, whole, of the function whose "
            "`def` is in row `line` of file_text, which must parse; row "
            f"{line} of {file.path} and {prompt[:60]!r} differ: correct the "
            "columns, or leave them out"
        )
    return Place(file, line, function, prompt)
