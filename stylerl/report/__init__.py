"""The outcome: one HTML page, and the table for the terminal.

page.py renders, charts.py and samples.py choose what it shows, plots.py draws,
markup.py underlines violations; summary.py writes the metrics as sentences and
tables.
"""
