"""One run of a tool, from its claim to its report to Celery.

In reading order:

    runner      the steps of a run
    coroutines  the event loop of an `async` tool, in a pool of processes or threads
    ending      how a run ended: what the row stores, the client gets, and Celery stores
"""
