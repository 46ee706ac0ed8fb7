"""Every block of code of the pages is run by a test, or is none for a reason that `account` tells.

Is this what failed after you wrote a block? "Who writes a page" in docs/architecture.md says what to do.
"""

import pytest

from tests.docs import account, pages


@pytest.mark.parametrize("page", pages.pages())
def test_every_block_of_a_page_is_run_by_a_test_or_is_none(page: str) -> None:
    unsettled = [str(entry) for entry in account.of_page(page) if not entry.is_settled]
    assert not unsettled, "\n".join(unsettled)


def test_what_is_said_to_be_run_or_to_be_none_is_there() -> None:
    blocks = [block for page in pages.pages() for block in pages.of_page(page)]
    gone = [claim for claim in account.claims() if not any(map(claim.takes, blocks))]
    assert not gone
    assert account.NO_SNIPPETS.keys() <= {block.name for block in blocks}
