"""The processes of a site: servers, workers, and their preparation.

In reading order:

    serve           `mcp serve`: a whole site in one process and its worker
    preparation     tables, tools' rows, and a first administrator
    welcome         the messages of `mcp serve`
    addresses       the address on which it listens
    worker_process  the worker that belongs to one server
    worker          `mcp worker`: a Celery worker in this process
    stdio           `mcp stdio`: one client on the standard streams
    own_worker      the worker that `mcp stdio` or `mcp call` starts
    local_caller    the caller at a terminal or over stdio
    supervise       `mcp supervise`
    gc_tuning       garbage collection of these processes
"""
