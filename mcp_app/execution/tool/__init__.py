"""What a tool can use while it runs.

In reading order:

    context       its request, progress, log, questions and cancellation
    subprocesses  `ctx.run`
    starting      calls of other tools
    log_records   the standard `logging` inside a tool
    middleware    the middleware and transactions around its function
"""
