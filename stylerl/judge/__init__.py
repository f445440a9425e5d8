"""The judge: source -> verdict, through flake8, exactly and fast.

    Judge(JudgeConfig()).verdict("x=1\\n").violations

judge.py is the front, and fingerprint.py says which judge it is; engine.py
calls flake8 in-process through checker.py, ruff_engine.py ruff in its place,
and rule_check.py refuses rules that find nothing; worker_main.py,
worker_process.py and pool.py keep it in processes that may die.  place.py puts
a completion into its file, of which excerpt.py keeps what decides; outcome.py
charges it with what is its own, and positions.py finds the tokens that wrote
it; fixer.py mends it, and names.py counts the names it reads that exist.
"""

from typing import TYPE_CHECKING, Any

from stylerl.judge.verdict import Source, Verdict, Violation

if TYPE_CHECKING:
    from stylerl.judge.judge import Judge

__all__ = ["Judge", "Source", "Verdict", "Violation"]


def __getattr__(name: str) -> Any:
    """Import Judge when it is asked for: a worker needs flake8 alone."""
    if name != "Judge":
        raise AttributeError(f"stylerl.judge has no {name!r}")
    from stylerl.judge.judge import Judge

    return Judge
