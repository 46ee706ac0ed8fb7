"""The embedded server's access log, if a site turns it on."""

import logging

import pytest

from mcp_app.embedded import server


@pytest.mark.fault("G3")
def test_G3_no_query_gets_into_the_access_log(caplog: pytest.LogCaptureFixture) -> None:
    details = {"method": "POST", "path": "/mcp?access_token=secret", "status": 401, "size": 7, "time_taken": 0.25}
    with caplog.at_level(logging.INFO, logger=server.access_logger.name):
        server._log_access("http", "complete", details)
    assert caplog.messages == ["POST /mcp 401 7 bytes in 0.250 s"]
