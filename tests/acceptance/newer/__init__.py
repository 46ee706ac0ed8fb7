"""What a new version of the acceptance site brings: one more app, with a tool."""
