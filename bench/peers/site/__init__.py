"""The site of this project in the comparison: the example site's engines and options, with the tools of the peers."""
