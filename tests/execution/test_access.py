"""A caller's access is checked again when the tool is about to start, because a call may have waited for long."""

from pathlib import Path

import pytest

from mcp_app.auth.principal import Principal
from tests.execution import driver
from tests.execution.site import Site


@pytest.mark.fault("G6")
@pytest.mark.parametrize("taken", [True, False], ids=["taken", "kept"])
def test_G6_a_permission_that_was_taken_while_the_call_was_queued_is_asked_for_again(
    one_slot: Site, tmp_path: Path, taken: bool
) -> None:
    path = tmp_path / "ran"
    key = one_slot.ask(driver.make_user, f"user-{tmp_path.name}-{taken}", "view_user")
    principal = Principal("django", key, "", "user", user_id=key)
    before = one_slot.begin("doze", {"seconds": 60})
    queued = one_slot.submit("permitted", {"path": str(path)}, principal=principal)
    if taken:
        one_slot.ask(driver.take_permissions, key)
    one_slot.cancel(before)
    ended = one_slot.ended(queued)
    assert path.exists() is not taken
    assert ended["status"] == ("failed" if taken else "completed")
    if taken:
        assert (ended["error"]["code"], ended["error"]["message"]) == (-32602, "Unknown tool: permitted.")
