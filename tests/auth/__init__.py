"""Who is asking: principals, and the tokens that prove them."""
