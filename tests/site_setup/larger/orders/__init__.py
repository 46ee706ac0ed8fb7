"""What the company sells, and its ledger in a database of its own."""
