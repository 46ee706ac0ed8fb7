"""A site as real processes, and the clients that talk to it."""
