"""`python -m bench.peers`: this project beside what a user would pick instead, interleaved in one run.

Owns the comparison: who is measured, in which order, what counts as met. Peers run in environments of their own, on
servers of a few lines each. Refuses to compare numbers of different runs: every goal is judged by medians of one.
"""
