"""Requests and their cancellations in words, the same for the admin's pages and the command line.

    formatting          times, lengths of time, numbers, JSON and foreign texts
    facts               a request at a glance: its status in words, who, when, where, and what it was given and returned
    timeline            its events as lines
    cancellation_story  how its cancellation went

Refuses markup, and to write anything.
"""
