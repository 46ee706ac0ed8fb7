"""The audit of cancellations: an append-only table that is signed, sealed and verified.

In reading order:

    attempts      one row for each attempt to cancel, completed when the work is proved stopped
    signatures    HMACs under a key that is not in the database; explains how they protect the audit
    sealing       links final rows into a chain, in small batches
    verification  finds rows that were changed, deleted or inserted without this app
    export        the audit as a CSV or JSON file
"""
