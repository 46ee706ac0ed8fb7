"""Texts with which clients and tools could attack users of the admin."""

SCRIPT = "<script>alert(1)</script>"
LINK = "javascript:alert(1)"
REVERSED = "safe\u202egnp.exe"
CONTROL = "bell\x07 escape\x1b[31m"
LONG = "x" * 1_000_000
