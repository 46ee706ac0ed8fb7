"""The clients of a chaos run, with one module for each kind. Each client performs one errand from beginning to end.

The clients record the responses in the ledger, and do not check them.
"""
