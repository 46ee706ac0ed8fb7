"""The clients of a chaos run, a module for what each is about. Each takes one errand from its beginning to its end.

They write down in the ledger what they were told, and judge nothing.
"""
