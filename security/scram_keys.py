"""Keys of SCRAM credentials (RFC 5802, RFC 7677): what is stored in place of a password. Sans-IO.

Passwords are UTF-8 bytes as they are: Kafka applies no SASLprep.
"""

import hashlib
import hmac
from typing import Final

from kvorum.security.credentials import ScramCredential, ScramMechanism

SALT_BYTES: Final = 20
"""Size of a random salt: 160 bits, more than any number of users needs to differ."""


def salted_password(mechanism: ScramMechanism, password: bytes, salt: bytes, iterations: int) -> bytes:
    """Return Hi(password, salt, iterations). Takes a few milliseconds at 4,096 iterations."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password, salt, iterations)


def credential_from(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return the credential of a salted password."""
    name = mechanism.hash_name
    client_key = hmac.digest(salted, b"Client Key", name)
    return ScramCredential(
        salt=salt,
        stored_key=hashlib.new(name, client_key).digest(),
        server_key=hmac.digest(salted, b"Server Key", name),
        iterations=iterations,
    )


def derive_credential(mechanism: ScramMechanism, password: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return the credential of a password. Takes as long as `salted_password`."""
    return credential_from(mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations)
