"""Faults that the site survives, each test named by the fault's row in the project's list of them."""
