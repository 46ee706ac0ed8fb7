"""Over TLS, the authorization server is asked only if its certificate is valid."""

import ssl
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from mcp_app.auth.authentication import UndecidedError
from mcp_app.auth.oauth import fetching
from mcp_app.auth.oauth.fetching import fetch_json
from tests.auth.authorization_server import RSA_KEY, AuthorizationServer, running

pytestmark = pytest.mark.usefixtures("_trust_is_read_anew")


@pytest.fixture
def _trust_is_read_anew() -> Iterator[None]:
    fetching._ssl_context.cache_clear()
    yield
    fetching._ssl_context.cache_clear()


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Return a self-signed certificate of this machine, with its key."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    builder = x509.CertificateBuilder(name, name, RSA_KEY.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(datetime.now(UTC) - timedelta(hours=1))
    builder = builder.not_valid_after(datetime.now(UTC) + timedelta(hours=1))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), False)
    key = RSA_KEY.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = tmp_path / "certificate.pem"
    path.write_bytes(builder.sign(RSA_KEY, hashes.SHA256()).public_bytes(serialization.Encoding.PEM) + key)
    return path


@pytest.fixture
def issuer(certificate: Path) -> Iterator[AuthorizationServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with running(context) as server:
        yield server


def test_a_certificate_that_the_machine_trusts_is_good(
    issuer: AuthorizationServer, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert fetch_json(f"{issuer.issuer}/keys") == {"keys": issuer.keys}


@pytest.mark.fault("G3")
def test_G3_a_server_that_anybody_could_be_is_told_no_token(issuer: AuthorizationServer) -> None:
    with pytest.raises(UndecidedError):
        fetch_json(f"{issuer.issuer}/introspect", {"token": "secret"})
    assert issuer.asked == []


def test_a_byte_now_and_then_is_no_answer_either(
    issuer: AuthorizationServer, certificate: Path, monkeypatch: pytest.MonkeyPatch, configure: Any
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    configure(OAUTH_TIMEOUT=0.5)
    gone = threading.Event()

    def drip(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        try:
            while not gone.wait(0.05):
                request.wfile.write(b" ")
        except OSError:
            gone.set()

    issuer.instead = drip
    started = time.monotonic()
    with pytest.raises(UndecidedError):
        fetch_json(f"{issuer.issuer}/keys")
    assert time.monotonic() - started < 5
    assert gone.wait(10), "the connection was not closed"
