"""The judge: source -> verdict, through flake8, exactly and fast.

    Judge(JudgeConfig()).verdict("x=1\\n").violations

judge.py is the front; engine.py and prepared_flakes.py call flake8
in-process; worker_main.py, worker_process.py and pool.py keep it in processes
that may die, and cluster.py on other machines; cache.py remembers verdicts on
disk; outcome.py charges a completion with what is its own, and positions.py
finds the tokens that wrote it.
"""

from stylerl.judge.judge import Judge
from stylerl.judge.verdict import Verdict, Violation

__all__ = ["Judge", "Verdict", "Violation"]
