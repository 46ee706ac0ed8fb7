"""Capabilities that a client declares (2026-07-28 client/elicitation "Capabilities")."""

import pytest

from mcp_app.protocol.metadata import has_capabilities

FORM = {"elicitation": {"form": {}}}
URL = {"elicitation": {"url": {}}}


@pytest.mark.parametrize(
    ("required", "capabilities", "holds"),
    [
        ({}, {}, True),
        (FORM, {}, False),
        (FORM, {"elicitation": {}}, True),
        (FORM, {"elicitation": {"form": {}, "url": {}}}, True),
        (FORM, URL, False),
        (URL, {"elicitation": {}}, False),
        (URL, URL, True),
        ({"elicitation": {}}, URL, True),
        ({"sampling": {"tools": {}}}, {"sampling": {}}, False),
        ({"roots": {}}, {"roots": {}, "sampling": {}}, True),
        ({"roots": {}}, {"roots": None}, False),
        ({"sampling": {"tools": {}}}, {"sampling": {"tools": None}}, False),
        (FORM, {"elicitation": None}, False),
    ],
)
def test_an_empty_elicitation_means_forms_and_everything_else_what_it_says(required, capabilities, holds):
    assert has_capabilities(required, capabilities) == holds
