"""The execution of tools in a Celery worker: claim, context, tool, and the ladder that stops it.

In reading order; each package imports only packages below it:

    worker       the Celery task, and this app's part of a Celery worker
    pools/       the differences between Celery's pools
    run/         one run, from its claim to its report to Celery
    process/     the processes that run tools, and their worker's main process
    tool/        what a tool can use: its context
    recorder     writes the rows of running calls
    stopping/    how code is stopped: interrupts, processes, signals
    tool_queues  which queues a worker consumes

All SQL that changes a request is in `lifecycle`. Nothing here knows how a client is connected.
"""
