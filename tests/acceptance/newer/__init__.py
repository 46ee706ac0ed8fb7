"""The app that a new version of the acceptance site adds, with one tool."""
