from mcp_app.protocol.revisions import SUPPORTED_VERSIONS


def test_only_the_modern_revision_is_offered() -> None:
    assert SUPPORTED_VERSIONS == ("2026-07-28",)
