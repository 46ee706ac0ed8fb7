"""Cancelling requests.

In reading order:

    cancellation  every cancellation goes through this module
    throttling    limits the audit rows of attempts that change nothing
    groups        cancels many requests at once
"""
