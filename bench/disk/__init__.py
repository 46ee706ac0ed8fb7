"""`python -m bench.disk`: the bytes that a call leaves, kind by kind, and how fast `mcp purge` deletes them again.

Owns two sites on databases of their own: one whose calls the app's own lifecycle stores, step by step, one filled by
`bench.million.fill` with weeks of them. Refuses to be a benchmark of calls: nothing is published, no worker runs.
"""
