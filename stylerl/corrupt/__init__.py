"""Clean code -> code with one violation, rule by rule.

rules.py is the front: the rules, `corrupt_style` for whole bodies, and
`break_once` for minimal pairs; the other modules hold the rules by kind.
"""

from stylerl.corrupt.rules import RULES, break_once, corrupt_style

__all__ = ["RULES", "break_once", "corrupt_style"]
