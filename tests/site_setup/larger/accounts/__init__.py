"""Who works for the company."""
