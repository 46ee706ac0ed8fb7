"""Statistics of calls: counts of ended calls, queries on them, and numbers of open calls.

In reading order:

    tallies       counts ended calls by hour, tool and outcome; explains how statistics work
    durations     how long a request waited, ran, and took to stop
    queries       reads the tallies for the admin's pages
    live_numbers  open requests, queues and processes at this moment
    call_log      one log record for each ended call
"""
