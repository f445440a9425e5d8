"""The outcome: one HTML page, and the table for the terminal.

page.py renders, plots.py draws, markup.py underlines violations; summary.py
puts the numbers into words.
"""
