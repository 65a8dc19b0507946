"""Reads the topics of a consumer's JoinGroup metadata.

Sans-IO. Source: Kafka's ConsumerProtocol.

Only the beginning is read, which is common to all versions: int16 version, then an array of strings. The metadata are
between a client and its leader; unreadable bytes mean unknown topics, and nothing else.
"""

import struct

_COUNT = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Return the topics of a subscription, None if it cannot be read."""
    if len(metadata) < _COUNT.size:
        return None
    version, count = _COUNT.unpack_from(metadata)
    if version < 0 or not 0 <= count <= len(metadata) // _LENGTH.size:
        return None
    topics, position = set(), _COUNT.size
    for _ in range(count):
        if position + _LENGTH.size > len(metadata):
            return None
        (length,) = _LENGTH.unpack_from(metadata, position)
        position += _LENGTH.size
        if not 0 <= length <= len(metadata) - position:
            return None
        try:
            topics.add(metadata[position : position + length].decode())
        except UnicodeDecodeError:
            return None
        position += length
    return frozenset(topics)
