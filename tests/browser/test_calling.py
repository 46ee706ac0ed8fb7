"""A script in a page of the site calls a tool as the user who is logged in."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.browser.chromium import expect
from tests.support.site import wire

if TYPE_CHECKING:
    from tests.browser.conftest import Browse

CALL: Final = """async (message) => {
    const token = document.cookie.match(/csrftoken=([^;]+)/)[1];
    const headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": message.params._meta["io.modelcontextprotocol/protocolVersion"],
        "Mcp-Method": message.method,
        "Mcp-Name": message.params.name,
        "X-CSRFToken": token,
    };
    const answer = await fetch("/mcp", {method: "POST", headers, body: JSON.stringify(message)});
    return answer.text();
}"""
"""Returns the response as JSON, or as an event stream if the call takes longer."""


def test_a_script_in_a_page_calls_as_the_pages_user(browse: "Browse", tmp_path: Path) -> None:
    page = browse("auditor")
    page.goto("/admin/")
    call = wire.message("tools/call", name="wait_for_file", arguments={"path": str(tmp_path)})
    said = page.evaluate(CALL, call)
    [result] = [json.loads(part) for part in re.findall(r"^(?:data: )?({.*})", said, re.MULTILINE)]
    assert result["result"]["content"][0]["text"] == "It is there."
    page.goto("/admin/mcp_app/request/")
    expect(page.get_by_role("row", name="wait_for_file").get_by_text("auditor", exact=True).first).to_be_visible()
