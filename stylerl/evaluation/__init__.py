"""Before and after: metrics, goals and guards of an evaluation.

measurement/ samples, judges and measures.  Here, display.py names each number
and shows it, guards.py says what a gain must not have cost; promotion.py
decides on them, comparison.py compares two policies.  Stage `evaluate`
uses measurement/ alone, so another wording of a guard samples nothing again.
"""
