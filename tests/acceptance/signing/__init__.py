"""A site whose callers are its users, with a tool that sends them to a page of it."""
