"""The company's prices, and its ledger in a database of its own."""
