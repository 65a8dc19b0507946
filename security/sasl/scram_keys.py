"""Keys of SCRAM (RFC 5802): from a password to the stored credential."""

import hashlib
import hmac

from kvorum.security.credentials import ScramCredential, ScramMechanism


def salt_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Return SaltedPassword. Takes milliseconds: PBKDF2. No SASLprep, as in Kafka."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def credential_of(mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return the credential to store."""
    client_key = keyed_hash(mechanism, salted_password, b"Client Key")
    server_key = keyed_hash(mechanism, salted_password, b"Server Key")
    return ScramCredential(salt, plain_hash(mechanism, client_key), server_key, iterations)


def keyed_hash(mechanism: ScramMechanism, key: bytes, data: bytes) -> bytes:
    """Return HMAC(key, data)."""
    return hmac.digest(key, data, mechanism.hash_name)


def plain_hash(mechanism: ScramMechanism, data: bytes) -> bytes:
    """Return H(data)."""
    return hashlib.new(mechanism.hash_name, data).digest()


def exclusive_or(left: bytes, right: bytes) -> bytes:
    """Return the bitwise difference of two texts of one length."""
    assert len(left) == len(right)
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
