"""What an evaluation's metrics mean.

display.py names each number and shows it, guards.py says what a gain must
not have cost; promotion.py decides on them, comparison.py sets two runs side
by side, frontier.py the points of a sweep.
"""
