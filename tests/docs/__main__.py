"""`python -m tests.docs [PAGE …]`: of every block of code who runs it."""

import sys

from tests.docs import account, pages

for page in sys.argv[1:] or pages.pages():
    for entry in account.of_page(page):
        sys.stdout.write(f"{entry}\n")
