"""`python -m tests.docs [PAGE …]` prints which test runs each block of code."""

import sys

from tests.docs import account, pages

for page in sys.argv[1:] or pages.pages():
    for entry in account.of_page(page):
        sys.stdout.write(f"{entry}\n")
