"""Faults that the site survives. Each test is named after the fault's row in docs/project/reliability.md."""
