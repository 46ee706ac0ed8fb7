"""The life of a request. Only this package writes requests, events and the audit.

In reading order; each package imports only those below it:

    supervision/    closes requests whose processes have died, and other periodic work
    children        requests that tools start
    sessions/       sessions of legacy clients, listen streams
    task_handles    tasks: requests that go on without a waiting client
    cancellation/   every cancellation goes through this package
    input/          questions of requests to their clients, and the answers
    publishing      sends tasks and control commands to Celery's workers
    limits/         limits on open calls, and on how often a tool may be called
    requests/       the steps of a request, its events, and what its client reads
    statistics/     counts of ended calls
    redaction       calls the site's function that redacts stored values
    audit/          a row for every attempt to cancel, sealed and verified
    liveness/       which processes are alive, wake-ups, queues
    database/       database time, retries, JSON values
"""
