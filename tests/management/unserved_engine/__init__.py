"""A database engine that this app does not support, as Oracle's, but that every machine has."""
