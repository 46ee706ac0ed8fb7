import pytest

from mcp_app.protocol.revisions import LEGACY_REVISIONS, MODERN, SUPPORTED_VERSIONS, Era, decide_era


@pytest.mark.parametrize("header", [None, MODERN, "v999.0.0", *LEGACY_REVISIONS])
def test_a_version_in_meta_makes_a_request_modern(header: str | None) -> None:
    assert decide_era(header, declares_version=True) is Era.MODERN


@pytest.mark.parametrize("header", [MODERN, "v999.0.0", ""])
def test_a_header_that_names_a_modern_or_unknown_version_makes_a_request_modern(header: str) -> None:
    assert decide_era(header, declares_version=False) is Era.MODERN


@pytest.mark.parametrize("header", [None, *LEGACY_REVISIONS])
def test_a_legacy_header_or_none_without_meta_is_legacy(header: str | None) -> None:
    assert decide_era(header, declares_version=False) is Era.LEGACY


def test_only_the_modern_revision_is_offered() -> None:
    assert SUPPORTED_VERSIONS == ("2026-07-28",)
