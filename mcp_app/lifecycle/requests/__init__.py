"""The steps of a request's life, and the results for its client.

In reading order:

    transitions   every step: a compare-and-set, its events and its wake-up
    submission    a call that passed all checks, with the redacted values to store
    events        event rows, numbered for each request
    statements    the hand-written ones: submit, claim, append, end
    mysql_steps   the same on MySQL and MariaDB
    observation   which watched requests have moved, and the results and errors for their clients
"""
