"""JWTs are accepted only as their issuer signed them, for this endpoint, and within their time."""

import base64
import hmac
import json
import logging
import secrets
import time
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from django.contrib.auth.models import User

from mcp_app.auth.authentication import InvalidCredentialsError
from mcp_app.auth.principal import Principal
from mcp_app.catalogue.declaration import isolated_registries
from mcp_app.catalogue.registry import tool
from mcp_app.models import Request
from tests.auth.asking import ask
from tests.auth.authorization_server import EC_KEY, OTHER_KEY, RESOURCE, RSA_KEY, AuthorizationServer
from tests.auth.jwts import authenticate_token
from tests.support.asgi_client import call, post, run

pytestmark = [pytest.mark.usefixtures("_protected"), pytest.mark.django_db(transaction=True, databases="__all__")]

METADATA = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
Issuer = AuthorizationServer


@pytest.fixture
def _protected(protected: Callable[..., None]) -> None:
    protected("jwts")


def test_a_good_token_is_its_subjects_with_its_client_and_its_scopes(issuer: Issuer) -> None:
    principal = authenticate_token(issuer.token())
    assert principal == Principal(issuer.issuer, "ada", "editor", "ada")
    assert principal is not None
    assert principal.scopes == {"files:read", "files:write"}
    assert ask(issuer.token()).status == 200


@pytest.mark.parametrize(
    "good",
    [
        lambda issuer: issuer.token(header={"typ": "application/AT+JWT"}),
        lambda issuer: issuer.token(header={"typ": "JWT"}),
        lambda issuer: issuer.token(header={"typ": None}),
        lambda issuer: issuer.token(aud=["https://other.example.com", "HTTPS://MCP.example.com/mcp"]),
        lambda issuer: issuer.token(exp=int(time.time()) - 5),
        lambda issuer: issuer.token(nbf=int(time.time()) + 5),
        lambda issuer: issuer.token(key=EC_KEY, algorithm="ES256", header={"kid": "ec"}),
        lambda issuer: issuer.token(key=EC_KEY, algorithm="ES256", header={"kid": None}),
    ],
    ids=["at+jwt", "JWT", "no typ", "one audience of two", "our clock is ahead", "ours is behind", "ES256", "only key"],
)
def test_tokens_may_differ(issuer: Issuer, good: Callable[[Issuer], str]) -> None:
    assert authenticate_token(good(issuer)) is not None


def encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def signed(header: dict[str, Any], claims: dict[str, Any], sign: Callable[[bytes], bytes] = lambda text: b"") -> str:
    """Sign a JWT of any kind, including ones that libraries refuse to make."""
    text = f"{encoded(json.dumps(header).encode())}.{encoded(json.dumps(claims).encode())}"
    return f"{text}.{encoded(sign(text.encode()))}"


def unsigned(issuer: Issuer, algorithm: str, **header: Any) -> str:
    return signed({"alg": algorithm, "typ": "at+jwt", "kid": "rsa", **header}, issuer.claims())


def signed_with_the_public_key(issuer: Issuer) -> str:
    """Sign with the public key as if it were a shared secret (RFC 8725 §2.1)."""
    public = RSA_KEY.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    header = {"alg": "HS256", "typ": "at+jwt", "kid": "rsa"}
    return signed(header, issuer.claims(), lambda text: hmac.digest(public, text, "sha256"))


def with_another_subject(issuer: Issuer) -> str:
    header, _, signature = issuer.token().split(".")
    return f"{header}.{encoded(json.dumps(issuer.claims(sub='root')).encode())}.{signature}"


BAD: dict[str, Callable[[Issuer], str]] = {
    "another audience": lambda issuer: issuer.token(aud="https://other.example.com/mcp"),
    "the root's audience": lambda issuer: issuer.token(aud="https://mcp.example.com"),
    "a longer audience": lambda issuer: issuer.token(aud=f"{RESOURCE}/more"),
    "a client's audience": lambda issuer: issuer.token(aud="editor"),
    "no audience": lambda issuer: issuer.token(aud=None),
    "an audience that is no text": lambda issuer: issuer.token(aud=[7, {"a": 1}]),
    "another issuer": lambda issuer: issuer.token(iss="https://evil.example.com"),
    "an issuer with a slash more": lambda issuer: issuer.token(iss=f"{issuer.issuer}/"),
    "no issuer": lambda issuer: issuer.token(iss=None),
    "none": lambda issuer: unsigned(issuer, "none"),
    "None": lambda issuer: unsigned(issuer, "None"),
    "no signature": lambda issuer: unsigned(issuer, "RS256"),
    "HS256 with the public key": signed_with_the_public_key,
    "an algorithm that is not allowed": lambda issuer: issuer.token(algorithm="RS512"),
    "an algorithm that is not the key's": lambda issuer: issuer.token(algorithm="PS256"),
    "another's signature": lambda issuer: issuer.token(key=OTHER_KEY, algorithm="ES256", header={"kid": "ec"}),
    "claims that were changed": with_another_subject,
    "expired": lambda issuer: issuer.token(exp=int(time.time()) - 60),
    "no end": lambda issuer: issuer.token(exp=None),
    "not yet valid": lambda issuer: issuer.token(nbf=int(time.time()) + 60),
    "an unknown key": lambda issuer: issuer.token(header={"kid": "unknown"}),
    "a key that is no text": lambda issuer: unsigned(issuer, "RS256", kid=7),
    "an id token's type": lambda issuer: issuer.token(header={"typ": "logout+jwt"}),
    "a critical header": lambda issuer: issuer.token(header={"crit": ["x"], "x": 1}),
    "bound to a key": lambda issuer: issuer.token(cnf={"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}),
    "no subject": lambda issuer: issuer.token(sub=None),
    "an empty subject": lambda issuer: issuer.token(sub=""),
    "a subject that breaks lines": lambda issuer: issuer.token(sub="ada\nroot"),
    "a subject without end": lambda issuer: issuer.token(sub="a" * 256),
    "no JWT": lambda issuer: secrets.token_urlsafe(32),
    "too many parts": lambda issuer: f"{issuer.token()}.{issuer.token()}",
    "a header without end": lambda issuer: f"{encoded(b'[' * 9_000)}.e30.e30",
    "a list for an algorithm": lambda issuer: signed({"alg": []}, issuer.claims()),
}


@pytest.mark.fault("G3")
@pytest.mark.parametrize("kind", BAD)
def test_G3_a_token_that_is_no_good_is_a_401_that_says_where_to_get_one_and_nothing_is_kept_of_it(
    issuer: Issuer, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    token = BAD[kind](issuer)
    with caplog.at_level(logging.DEBUG, logger="mcp_app"):
        reply = ask(token)
    assert (reply.status, reply.body["error"]["code"]) == (401, 401)
    assert reply.parameters == {"error": "invalid_token", "resource_metadata": METADATA}
    assert [record.name for record in caplog.records if record.levelno == logging.INFO] == ["mcp_app.auth.oauth.claims"]
    for part in (token, *token.split(".")):
        assert len(part) < 8 or part not in f"{caplog.text}{reply.body}"
    assert not Request.objects.exists()


@pytest.mark.fault("G3")
def test_G3_the_settings_allow_fewer_algorithms_and_never_one_with_a_shared_secret(
    configure: Any, issuer: Issuer
) -> None:
    configure(OAUTH_ALGORITHMS=["RS256", "HS256", "none"])
    issuer.keys.append({"kty": "oct", "kid": "shared", "k": encoded(b"s" * 32)})
    assert authenticate_token(issuer.token()) is not None
    for token in (
        issuer.token(key=EC_KEY, algorithm="ES256", header={"kid": "ec"}),
        issuer.token(key="s" * 32, algorithm="HS256", header={"kid": "shared"}),
        unsigned(issuer, "none"),
    ):
        with pytest.raises(InvalidCredentialsError):
            authenticate_token(token)


@pytest.mark.fault("G3")
@pytest.mark.parametrize("authorization", ["", "Basic {token}", "Bearertoken {token}", "{token}"])
def test_G3_a_token_that_is_not_shown_as_one_is_a_401(issuer: Issuer, authorization: str) -> None:
    reply = ask(authorization=authorization.format(token=issuer.token()) or " ")
    assert reply.status == 401
    assert reply.parameters["resource_metadata"] == METADATA


@pytest.mark.fault("G3")
@pytest.mark.parametrize("authorization", ["Bearer", "bearer ", "Bearer {token} x", "Bearer {token}, Bearer {token}"])
def test_G3_a_field_that_holds_no_token_or_several_is_malformed(issuer: Issuer, authorization: str) -> None:
    reply = ask(authorization=authorization.format(token=issuer.token()))
    assert (reply.status, reply.body["error"]["code"]) == (400, -32600)
    assert reply.parameters == {"error": "invalid_request", "resource_metadata": METADATA}
    assert not Request.objects.exists()


@pytest.mark.fault("G3")
@pytest.mark.parametrize("name", ["access_token", "token"])
def test_G3_a_token_in_the_query_is_none(issuer: Issuer, caplog: pytest.LogCaptureFixture, name: str) -> None:
    token = issuer.token()
    with caplog.at_level(logging.DEBUG, logger="mcp_app"):
        reply = ask(query=f"{name}={token}")
    assert reply.status == 401
    assert reply.parameters == {"resource_metadata": METADATA}
    assert token not in f"{caplog.text}{reply.body}"


@pytest.mark.fault("G3")
def test_G3_without_a_token_the_challenge_names_the_scopes_that_it_takes(configure: Any) -> None:
    configure(OAUTH_REQUIRED_SCOPES=["mcp", "profile"])
    reply = ask()
    assert reply.status == 401
    assert reply.parameters == {"scope": "mcp profile", "resource_metadata": METADATA}


@pytest.mark.fault("G3")
def test_G3_a_token_without_a_scope_that_every_request_takes_is_a_403_that_names_it(
    configure: Any, issuer: Issuer
) -> None:
    configure(OAUTH_REQUIRED_SCOPES=["mcp", "files:read"])
    reply = ask(issuer.token())
    assert (reply.status, reply.body["error"]["code"]) == (403, 403)
    assert reply.parameters == {
        "error": "insufficient_scope",
        "scope": "mcp files:read",
        "resource_metadata": METADATA,
    }
    assert ask(issuer.token(scope="files:read mcp")).status == 200
    configure(IMPLIED_SCOPES={"admin": ["files:write"], "files:write": ["files:read", "mcp", "admin"]})
    assert ask(issuer.token(scope="admin")).status == 200


@pytest.mark.fault("G3")
@pytest.mark.fault("G6")
def test_G3_a_tool_that_takes_a_scope_challenges_with_all_that_the_call_takes(configure: Any, issuer: Issuer) -> None:
    configure(OAUTH_REQUIRED_SCOPES=["files:read"])

    async def scenario() -> None:
        client = await post(call("dangerous"), headers={"Authorization": f"Bearer {issuer.token()}"})
        assert (await client.json())["error"]["code"] == client.status == 403
        assert client.headers["www-authenticate"] == (
            f'Bearer error="insufficient_scope", scope="files:read admin", resource_metadata="{METADATA}"'
        )

    with isolated_registries():

        @tool(scopes=["admin"])
        def dangerous() -> str:
            return ""

        run(scenario())
    assert not Request.objects.exists()


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({"scope": "a b"}, {"a", "b"}),
        ({"scope": None, "scp": "a  b"}, {"a", "b"}),
        ({"scope": None, "scp": ["a", "b", 7]}, {"a", "b"}),
        ({"scope": None}, set()),
        ({"scope": {"a": 1}}, set()),
    ],
)
def test_scopes_are_told_in_two_claims_and_two_forms(issuer: Issuer, claims: dict[str, Any], scopes: set[str]) -> None:
    principal = authenticate_token(issuer.token(**claims))
    assert principal is not None
    assert principal.scopes == scopes


def test_an_audience_of_the_authorization_servers_own_takes_the_place_of_the_uri(
    configure: Any, issuer: Issuer
) -> None:
    configure(OAUTH_AUDIENCES=["api://mcp"])
    assert authenticate_token(issuer.token(aud="api://mcp")) is not None
    with pytest.raises(InvalidCredentialsError):
        authenticate_token(issuer.token())


def user_of(claims: dict[str, Any]) -> User | None:
    return User.objects.filter(username=claims["sub"]).first()


def test_the_sites_function_finds_the_user_of_a_token(configure: Any, issuer: Issuer) -> None:
    configure(OAUTH_USER=f"{__name__}.user_of")
    ada = User.objects.create_user("ada")
    principal = authenticate_token(issuer.token())
    assert principal == Principal(issuer.issuer, "ada", "editor", "ada", user_id=str(ada.pk))
    nobody = authenticate_token(issuer.token(sub="eve", preferred_username="Eve"))
    assert nobody == Principal(issuer.issuer, "eve", "editor", "Eve")
    User.objects.update(is_active=False)
    with pytest.raises(InvalidCredentialsError):
        authenticate_token(issuer.token())
