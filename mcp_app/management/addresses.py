"""Where the server listens: whether that is this machine alone, and how people are told."""

import ipaddress
import socket


def is_loopback(host: str) -> bool:
    """Whether `host` is reached from this machine only; a name is, if all its addresses are. Raises OSError."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return all(ipaddress.ip_address(address[0]).is_loopback for *_, address in found)


def base_url(host: str, port: int) -> str:
    """How a client on this machine reaches the server."""
    if host in ("0.0.0.0", "::", ""):  # noqa: S104 - compared, not bound
        host = "localhost"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
