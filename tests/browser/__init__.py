"""The admin as its users see it: a whole site, headless Chromium, and clients beside it. Also the app of its tools."""
