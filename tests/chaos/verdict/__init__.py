"""Checks of a quiet site after a run: its rows, the responses of its clients, the work of its tools, and leftovers."""
