"""`python -m bench.peers`: compares this project with alternatives, which are measured in turn in the same run.

Each peer runs in an environment of its own, with a server of a few lines. Numbers of different runs are never compared:
every goal is judged by the medians of one run.
"""
