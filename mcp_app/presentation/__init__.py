"""Requests and their cancellations in words, for the admin's pages and for the command line.

    formatting          times, durations, numbers, JSON, and texts of clients and tools
    facts               one request: its status, caller, times and place in the queue, and its payloads
    timeline            the events of a request as lines
    cancellation_story  how the cancellation of a request went

The texts are plain: the callers add markup. Nothing here writes to the database.
"""
