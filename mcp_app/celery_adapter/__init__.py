"""Everything that this app does with Celery, billiard and kombu beyond their documented interfaces.

Upstream may change such names in any release. So they are used here only (and by the transport in
`mcp_app.embedded`), `docs/project/upstream.md` lists each one with its reason, and a contract test shows
that each behaves as this app needs.

In reading order:

    broker         connections to the broker, on which no operation waits for long
    consumer       how a worker receives messages, and survives bad ones and a lost broker
    request_class  Celery's object for one received task
    pools          the kinds of pools, and which of them can run tools
    prefork        the processes of the prefork pool, their ends, and the kill of one
    thread_pool    Celery's threads pool with daemon threads
    results        the results that Celery's backend stores
"""
