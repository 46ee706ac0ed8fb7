"""Our side of the comparison: the example site's engines and options, and the tools that the peers have."""
