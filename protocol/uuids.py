"""Kafka's uuids: 16 bytes, written as unpadded URL-safe base64 (org.apache.kafka.common.Uuid)."""

import base64
import binascii


class Uuid(bytes):
    """Sixteen bytes that print as Kafka prints them."""

    __slots__ = ()

    def __str__(self) -> str:
        """Return the 22-character form."""
        return base64.urlsafe_b64encode(self).rstrip(b"=").decode()

    def __repr__(self) -> str:
        """Return the 22-character form, marked."""
        return f"Uuid({self})"

    @classmethod
    def parse(cls, text: str) -> "Uuid":
        """Return the uuid of a 22-character (or padded) text. Raises ValueError."""
        try:
            value = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except binascii.Error as error:
            raise ValueError(f"{text!r} is not a base64 UUID: {error}") from error
        if len(value) != 16:
            raise ValueError(f"{text!r} has {len(value)} bytes, a UUID has 16")
        return cls(value)


ZERO_UUID = Uuid(16)
"""The zero uuid: an absent topic id on the wire."""
ONE_UUID = Uuid(bytes(15) + b"\1")
"""Reserved by Kafka for the metadata topic."""
METADATA_TOPIC_ID = ONE_UUID
