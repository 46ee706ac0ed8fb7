"""Every block of code in the pages is run by a test, or is a directive of Sphinx.

If this fails after you wrote a block, see "Write a page" in CONTRIBUTING.md.
"""

import pytest

from tests.docs import account, pages


@pytest.mark.parametrize("page", pages.pages())
def test_every_block_of_a_page_is_run_by_a_test_or_is_a_directive(page: str) -> None:
    unsettled = [str(entry) for entry in account.of_page(page) if not entry.is_settled]
    assert not unsettled, "\n".join(unsettled)


def test_a_test_takes_only_blocks_that_exist() -> None:
    blocks = [block for page in pages.pages() for block in pages.of_page(page)]
    gone = [claim for claim in account.claims() if not any(map(claim.takes, blocks))]
    assert not gone
