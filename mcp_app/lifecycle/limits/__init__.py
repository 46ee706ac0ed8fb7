"""Limits on open calls, and on how often a tool may be called.

In reading order:

    capacity     limits on a caller's open calls, and on calls that wait for a worker
    concurrency  limits on a caller's open calls of one tool
    call_rates   limits on how often a caller may call one tool
"""
