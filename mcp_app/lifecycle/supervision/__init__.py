"""Supervision: find requests that a dead process left behind, and clean up what has expired.

In reading order:

    rounds             the steps of a round, and which process carries it out
    idle               fewer queries while nothing happens at the site
    dead_servers       cancels the calls whose clients waited in a server process that has died
    unconsumed_queues  reports queues that no worker consumes
    clock_jumps        restarts waits after the database's clock was set
    change_versions    deletes change versions that are no longer needed
    purging            deletes requests and audit days whose retention period has ended
"""
