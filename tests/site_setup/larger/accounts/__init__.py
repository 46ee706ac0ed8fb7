"""The members of the company."""
