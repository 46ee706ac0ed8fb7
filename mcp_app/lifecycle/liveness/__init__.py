"""Which processes are alive, and how long requests wait for a worker.

In reading order:

    processes     a row for each server and worker process, with a heartbeat in database time
    wakeups       datagrams that make a process query its rows again
    vital_signs   whether a call's worker, or any worker, is alive
    queues        how long requests wait for a worker, the alarm, and places in the queue
"""
