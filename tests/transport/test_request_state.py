"""A requestState is accepted only for the caller and request that it was made for (2026-07-28 basic/patterns/mrtr)."""

import time
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from django.core import signing

from mcp_app.auth.principal import Principal
from mcp_app.lifecycle.database import clock
from mcp_app.transport.serving.request_state import Origin, seal, unseal

ADA = Principal(issuer="site", subject="7", client_id="editor", label="Ada")
ORIGIN = Origin(ADA, "tools/call", "dig", {"depth": 3, "where": {"x": 1, "y": 2}})
STATE = ["a request", 2, {"answered": {"n": 1.5}}]


def test_a_state_opens_for_the_same_request_however_its_members_are_ordered():
    same = replace(ORIGIN, arguments={"where": {"y": 2, "x": 1}, "depth": 3})
    assert unseal(seal(STATE, ORIGIN), same) == STATE


@pytest.mark.fault("G11")
@pytest.mark.parametrize(
    "change",
    [
        {"principal": replace(ADA, subject="8")},
        {"principal": replace(ADA, client_id="browser")},
        {"principal": replace(ADA, issuer="elsewhere")},
        {"method": "prompts/get"},
        {"name": "fill"},
        {"arguments": {"depth": 3}},
        {"arguments": {"depth": "3", "where": {"x": 1, "y": 2}}},
    ],
    ids=str,
)
def test_a_state_is_bound_to_principal_method_name_and_arguments(change):
    assert unseal(seal(STATE, ORIGIN), replace(ORIGIN, **change)) is None


@pytest.mark.parametrize("forged", ["", "a", "a:b:c", "\ud800", "::", "é" * 9])
def test_what_was_not_sealed_here_does_not_open(forged):
    assert unseal(forged, ORIGIN) is None


@pytest.mark.fault("G11")
def test_every_character_of_a_state_counts():
    sealed = seal(STATE, ORIGIN)
    for place in range(0, len(sealed), 7):
        other = "A" if sealed[place] != "A" else "B"
        assert unseal(sealed[:place] + other + sealed[place + 1 :], ORIGIN) is None


def test_another_signature_of_the_site_opens_nothing():
    assert unseal(signing.dumps([STATE, ORIGIN.digest]), ORIGIN) is None


@pytest.mark.fault("G11")
def test_a_state_expires(configure):
    sealed = seal(STATE, ORIGIN)
    configure(MAX_INPUT_SECONDS=-1.0)
    assert unseal(sealed, ORIGIN) is None


@pytest.mark.fault("D6")
@pytest.mark.parametrize("seconds", [3600, -3600])
def test_a_state_does_not_expire_by_the_clock_of_the_host_that_opens_it(configure, monkeypatch, seconds):
    configure(MAX_INPUT_SECONDS=60.0)
    clock.note(datetime.now(UTC))
    sealed, real = seal(STATE, ORIGIN), time.time
    monkeypatch.setattr(time, "time", lambda: real() + seconds)
    assert unseal(sealed, ORIGIN) == STATE


@pytest.mark.fault("G11")
def test_a_state_that_was_sealed_with_a_replaced_key_opens_while_that_is_a_fallback(settings):
    sealed, old = seal(STATE, ORIGIN), settings.SECRET_KEY
    settings.SECRET_KEY = "a new one"
    assert unseal(sealed, ORIGIN) is None
    settings.SECRET_KEY_FALLBACKS = [old]
    assert unseal(sealed, ORIGIN) == STATE
    assert unseal(seal(STATE, ORIGIN), ORIGIN) == STATE
    settings.SECRET_KEY_FALLBACKS = ["another"]
    assert unseal(sealed, ORIGIN) is None
