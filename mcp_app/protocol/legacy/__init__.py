"""The revisions 2025-03-26 to 2025-11-25, whose clients begin with `initialize`, as pure values.

In reading order:

    inbound     the messages of one POST: one, or several in the revision that has batches
    requests    the params of methods that only these revisions have; a legacy request as a `Route`
    results     results and errors without features that are newer than the revision
    questions   what a client can be asked, and the requests that ask it
"""
