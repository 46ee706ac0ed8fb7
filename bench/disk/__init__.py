"""`python -m bench.disk`: measures the bytes that calls of each kind leave, and how fast `mcp purge` deletes them.

It uses two sites with databases of their own. The app's own lifecycle stores the calls of the first step by step;
`bench.million.fill` fills the second with calls of several weeks. Nothing is published, and no worker runs.
"""
