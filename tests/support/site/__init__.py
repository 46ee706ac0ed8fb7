"""A site as real processes, and its clients."""
