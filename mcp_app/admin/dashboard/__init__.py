"""The dashboard.

pages    the site's current load, and statistics of ended calls
filters  the period, and one tool or all
numbers  counts, shares and durations as tables show them
plots    plots, each with the table behind it
"""
