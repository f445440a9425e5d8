"""Clean code -> code that breaks some rules, or does not parse.

rules.py is the front: the rules, `corrupt_style` for whole bodies, and
`break_once` for minimal pairs; the other modules hold the rules by kind.
"""

from stylerl.corrupt.rules import RULES, break_once, corrupt_style

__all__ = ["RULES", "break_once", "corrupt_style"]
