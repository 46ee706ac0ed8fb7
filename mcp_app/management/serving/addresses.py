"""The address on which the server listens."""

import ipaddress
import socket


def is_loopback(host: str) -> bool:
    """Whether `host` can be reached from this machine only. Raises `OSError` if the name has no address."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return all(ipaddress.ip_address(address[0]).is_loopback for *_, address in found)


def base_url(host: str, port: int) -> str:
    """Return the URL of the server for a client on this machine."""
    if host in ("0.0.0.0", "::", ""):  # noqa: S104 - compared, not bound
        host = "localhost"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
