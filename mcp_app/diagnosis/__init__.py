"""Checks of a running site: is everything that it depends on there, and does it work?

    checks            all checks, in the order in which they run
    examination       runs the checks, each with a time limit, and defines what a check returns
    database          the databases
    migrations        whether all migrations are applied
    broker            the broker
    channel_layer     the channel layer
    results           Celery's result backend
    worker_ping       asks all workers over the broker, as `celery inspect ping` does
    workers           the workers, by their rows and by their answers
    queues            the queues of tools, and whether a worker consumes each
    supervision       whether supervision rounds take place
    audit             how far the sealing of the audit is behind
    clocks            the clocks of the database and of the workers' hosts
    file_permissions  what other users of this machine may do with a file or folder

`mcp doctor` runs all of them; readiness probes (`transport.http.readiness`) run the short forms
`check_quickly`. A check only reads, repairs nothing, and always ends within its time limit.
"""
