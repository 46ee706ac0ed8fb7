"""A site whose callers are its users, with a tool that sends the user to a page of the site."""
