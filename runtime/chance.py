"""The only places of chance: others are handed a `random.Random` or a uuid, so that a simulation can choose."""

import os
import random
import secrets
import uuid

# Uuids that Kafka gives a meaning: ZERO and ONE (Uuid.RESERVED), and the first hundred (DirectoryId.RESERVED).
RESERVED_BELOW = 100
DASH_SEXTET = 62  # "-" in URL-safe base64
UUID_BYTES = 16
NONCE_BYTES = 18


def new_random(seed: int | None = None) -> random.Random:
    """Return a source of chance: repeatable with a seed, else seeded by the operating system."""
    return random.Random(seed)


def random_bytes(size: int) -> bytes:
    """Return random bytes of the operating system, fit for salts and secrets."""
    return os.urandom(size)


def new_nonce() -> str:
    """Return 144 unpredictable bits as URL-safe base64, for authentication."""
    return secrets.token_urlsafe(NONCE_BYTES)


def random_uuid_bytes(source: random.Random | None = None) -> bytes:
    """Return 16 bytes of a random (version 4) uuid that is valid as a cluster, topic or directory id.

    Reserved ids are excluded, and ids whose base64 begins with a dash, which a command line would treat as an option
    (Kafka's Uuid.randomUuid). From `source` when given, else from the operating system.
    """
    while True:
        data = uuid.uuid4().bytes if source is None else version_4(source.randbytes(UUID_BYTES))
        if data[0] >> 2 != DASH_SEXTET and int.from_bytes(data) >= RESERVED_BELOW:
            return data


def version_4(data: bytes) -> bytes:
    """Stamp 16 random bytes as a version 4 uuid."""
    return uuid.UUID(bytes=data, version=4).bytes
