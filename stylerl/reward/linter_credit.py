"""The linter's part of a reward, token by token: one for each violation."""

from dataclasses import dataclass

from stylerl.judge import Judge
from stylerl.judge.outcome import Assessment, weight_of
from stylerl.judge.positions import offset
from stylerl.reward.composite import assess_all, style_of, weighed_score
from stylerl.reward.functions import TokenReward

# Reported where a name is bound, for a use that never came: what was written
# there is no fault of its own.
UNUSED = ("F401", "F841", "F842", "ARG", "B007")


@dataclass(frozen=True)
class LinterCredit:
    """Token rewards for `composite.linter_style`, as the trainer takes them.

    What a completion misses of the style reward is shared by its violations:
    of the score by what they weigh, of compliance equally.  What has no place
    is left to the last action: a name that nothing uses, and all of a text
    that does not parse, whose one violation need not be where it broke.
    """

    judge: Judge
    weight: float = 1.0  # of the linter's part in the reward

    def __call__(
        self, prompts: list[str], completions: list[str]
    ) -> list[list[TokenReward]]:
        """The token rewards of each completion, at its own characters."""
        assessed = assess_all(self.judge, prompts, completions)
        rows = zip(prompts, completions, assessed, strict=True)
        return [self._token_rewards(*row) for row in rows]

    def _token_rewards(
        self, prompt: str, completion: str, found: Assessment
    ) -> list[TokenReward]:
        if not found.parsed or not found.violations:
            return []
        weights, count = self.judge.config.weights, len(found.violations)
        equal = -self.weight * (1 - style_of(found, weights)) / count
        # The score's part of it, to be shared by weight instead.
        part = -self.weight * (1 - weighed_score(found, weights)) / 2
        own = [weight_of(each.code, weights) for each in found.violations]
        total = sum(own) or 1.0  # of none, the score misses nothing
        return [
            TokenReward(
                offset(prompt + completion, each) - len(prompt),
                equal + part * (weight / total - 1 / count),
            )
            for each, weight in zip(found.violations, own, strict=True)
            if not each.code.startswith(UNUSED)
        ]
