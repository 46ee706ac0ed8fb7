"""Who is asking. Owns principals and how a connection becomes one; refuses to decide what a tool does."""
