"""Serves MCP over HTTP and stdio. All asynchronous code of the app is here.

In reading order; each package imports only those below it:

    consumers       one HTTP request to the endpoint: its checks, its body, its handler, its disconnect
    stdio/          one client on the standard streams of this process
    legacy/         clients of 2025-03-26 to 2025-11-25: sessions, their streams, requests to clients
    methods         dispatches requests to the handlers of their methods
    subscriptions/  `subscriptions/listen`
    calls/          `tools/call` and the methods of tasks
    reads/          resources, prompts, completion
    http/           HTTP responses, probes, protected resource metadata
    serving/        one request that is being served, over HTTP or stdio
    shutdown        the end of a server process
    server          the parts that all requests of a server process share
    watching/       notices when rows change that clients wait for
    process/        limits, threads, heartbeats and cancellations of a server process

It submits, watches and cancels calls through `lifecycle`. It runs no tools.
"""
