"""Authentication: principals, and the tokens that prove them."""
