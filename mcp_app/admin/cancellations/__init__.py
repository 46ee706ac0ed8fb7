"""The audit of cancellations.

pages    the list, and the page of each entry
filters  the filters of the list
export   the list as a CSV file
"""
