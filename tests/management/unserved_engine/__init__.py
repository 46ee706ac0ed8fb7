"""A database engine that this app does not support, as MySQL's, but that every machine has."""
