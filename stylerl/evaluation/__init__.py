"""Before and after: what an evaluation found, and what it means.

measurement/ samples, judges and measures.  Here, display.py names each number
and shows it, guards.py says what a gain must not have cost; promotion.py
decides on them, comparison.py sets two runs side by side.  Stage `evaluate`
uses measurement/ alone, so another wording of a guard samples nothing again.
"""
