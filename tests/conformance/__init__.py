"""Runs the official conformance suite against the real server: `python -m tests.conformance` (`.ci/conformance`)."""
