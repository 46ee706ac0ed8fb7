"""The signatures that may prove a token: those whose verifier could not have made them (RFC 8725 §3.1, RFC 7518)."""

from typing import Final

ASYMMETRIC: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
