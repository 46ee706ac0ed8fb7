"""A small authorization server on a port of this machine, with keys, introspection and logins.

It issues any token that a test asks for, valid or not, and records its requests.
"""

import base64
import hashlib
import json
import secrets
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

RESOURCE = "https://mcp.example.com/mcp"
CLIENT_ID, CLIENT_SECRET = "the server", "a+secret/with:signs"
Answer = tuple[int, dict[str, Any]]

RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
OTHER_KEY = ec.generate_private_key(ec.SECP256R1())


def public_key(private: Any, key_id: str, **fields: Any) -> dict[str, Any]:
    """Return the key as a JWK."""
    algorithm = jwt.algorithms.RSAAlgorithm if isinstance(private, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
    return {**algorithm.to_jwk(private.public_key(), as_dict=True), "kid": key_id, **fields}


class AuthorizationServer:
    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        self.keys = [public_key(RSA_KEY, "rsa", use="sig", alg="RS256"), public_key(EC_KEY, "ec")]
        self.introspected: dict[str, dict[str, Any]] = {}
        """The answers about tokens. Other tokens are inactive."""
        self.asked: list[str] = []
        """The paths of all requests."""
        self.logins: list[str] = []
        """The `Authorization` fields of introspections."""
        self.instead: Callable[[BaseHTTPRequestHandler], None] | None = None
        """Called for each request in place of a normal answer."""
        self._codes: dict[str, dict[str, str]] = {}

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Return the claims of a valid token, with changes. `None` removes a claim."""
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": RESOURCE,
            "sub": "ada",
            "client_id": "editor",
            "exp": now + 300,
            "iat": now,
            "scope": "files:read files:write",
            **changes,
        }
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, *, key: Any = RSA_KEY, algorithm: str = "RS256", header: Any = None, **changes: Any) -> str:
        """Return a JWT that is valid unless `changes` make it invalid."""
        fields = {"kid": "rsa", "typ": "at+jwt", **(header or {})}
        fields = {name: value for name, value in fields.items() if value is not None}
        return jwt.encode(self.claims(**changes), key, algorithm, fields)

    def opaque(self, **changes: Any) -> str:
        """Return a token that only introspection understands."""
        token = secrets.token_urlsafe(16)
        self.introspected[token] = {"active": True, **self.claims(**changes)}
        return token

    def times_asked(self, path: str) -> int:
        return self.asked.count(path)

    def answer(self, method: str, target: str, form: dict[str, str], login: str) -> Answer | str:
        """Return a status with an object, or with an address to go to."""
        path = urlsplit(target).path
        query = {name: values[0] for name, values in parse_qs(urlsplit(target).query).items()}
        self.asked.append(path)
        if path == "/keys":
            return 200, {"keys": self.keys}
        if path == "/introspect":
            self.logins.append(login)
            return 200, self.introspected.get(form["token"], {"active": False})
        if path == "/.well-known/oauth-authorization-server":
            return 200, self._metadata()
        if path == "/register":
            return 201, {"client_id": "editor", "redirect_uris": ["http://127.0.0.1/back"]}
        if path == "/authorize":
            code = secrets.token_hex(8)
            self._codes[code] = query
            return f"{query['redirect_uri']}?code={code}&state={query['state']}"
        if path == "/token":
            return self._exchange(form)
        return 404, {}

    def _metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "registration_endpoint": f"{self.issuer}/register",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
        }

    def _exchange(self, form: dict[str, str]) -> Answer:
        """Exchange a code for its token. The audience is the resource that the client named."""
        asked = self._codes.pop(form["code"])
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest())
        if asked["code_challenge"] != challenge.rstrip(b"=").decode() or asked["resource"] != form["resource"]:
            return 400, {"error": "invalid_grant"}
        token = self.token(aud=form["resource"], scope=asked.get("scope", ""))
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": 300}


def _handler(server: AuthorizationServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            self._answer({name: values[0] for name, values in parse_qs(body).items()})

        def log_message(self, format: str, *args: Any) -> None: ...

        def _answer(self, form: dict[str, str]) -> None:
            if server.instead is not None:
                server.asked.append(urlsplit(self.path).path)
                server.instead(self)
                return
            answer = server.answer(self.command, self.path, form, self.headers.get("Authorization", ""))
            status, content = (302, {}) if isinstance(answer, str) else answer
            body = json.dumps(content).encode()
            self.send_response(status)
            if isinstance(answer, str):
                self.send_header("Location", answer)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


@contextmanager
def running(tls: ssl.SSLContext | None = None) -> Iterator[AuthorizationServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as http:
        server = AuthorizationServer(f"{'http' if tls is None else 'https'}://127.0.0.1:{http.server_address[1]}")
        if tls is not None:
            http.socket = tls.wrap_socket(http.socket, server_side=True, do_handshake_on_connect=False)
        http.RequestHandlerClass = _handler(server)
        http.daemon_threads = True
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()
