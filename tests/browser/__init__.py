"""Tests of the admin in headless Chromium, on a whole site with clients. Also the app with the site's tools."""
