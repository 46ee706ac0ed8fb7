"""Test a site's tools: a pytest plugin, a client that needs no worker, and a client of a live site.

    plugin         the pytest plugin: the fixtures
    client         calls a site's tools in the test's own process
    caller         base class of both clients
    answers        prepared answers to the questions of tools
    outcomes       the result, notifications and row of a call
    exchange       a request and its response without a server
    worker         runs queued requests in the thread that queued them
    recorder       stores progress and log lines for that worker
    watcher        interrupts that worker's calls
    connections    lends the test's own database connections to tools
    live           the client of a live site, over HTTP
    live_site      starts that site: `mcp serve` on the test's databases
    live_settings  its settings

This package may import every other package, and no other package imports it. A test's call is checked, stored, run,
stopped and answered by the same code as in production. docs/how-to/testing.md lists the exceptions.
"""
