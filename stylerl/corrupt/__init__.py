"""Clean code -> code with one violation, rule by rule.

rules.py is the front: the rules, `corrupt_style` for whole bodies, and minimal
pairs; the other modules hold the rules by kind.
"""

from stylerl.corrupt.rules import (
    RULES,
    Pair,
    break_once,
    corrupt_style,
    minimal_pairs,
)

__all__ = ["RULES", "Pair", "break_once", "minimal_pairs", "corrupt_style"]
