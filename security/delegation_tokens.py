"""Secrets of delegation tokens (KIP-48): the HMAC of a token, and its SCRAM credential. Sans-IO.

Only the token's id is stored. Its HMAC, which is its password, is computed from `delegation.token.secret.key`.
"""

import base64
import hashlib
import hmac
from typing import Final

from kvorum.security.credentials import ITERATIONS_MIN, ScramCredential, ScramMechanism
from kvorum.security.scram_keys import derive_credential

SALT_BYTES: Final = 16


def token_hmac(secret_key: str, token_id: str) -> bytes:
    """Return a token's HMAC: 64 bytes."""
    return hmac.digest(secret_key.encode(), token_id.encode(), "sha512")


def token_password(token: bytes) -> str:
    """Return the password of a token by its HMAC."""
    return base64.b64encode(token).decode()


def token_scram_credential(mechanism: ScramMechanism, token: bytes) -> ScramCredential:
    """Return the credential of a token by its HMAC. Takes a few milliseconds.

    The salt is derived too, so that equal tokens have equal credentials at all nodes and at each start.
    """
    salt = hmac.digest(token, b"salt " + mechanism.hash_name.encode(), hashlib.sha256)[:SALT_BYTES]
    return derive_credential(mechanism, token_password(token).encode(), salt, ITERATIONS_MIN)
