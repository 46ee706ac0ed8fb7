"""The process that answers what `Inspector` asks: it runs in the environment of a stack, and knows its rows."""
