"""`subscriptions/listen`: a stream of change notifications.

In reading order:

    stream        one stream, until its client or this process ends it
    filters       the part of a client's filter that is served, and the changes its caller may see
    task_notices  notifications about watched tasks
"""
