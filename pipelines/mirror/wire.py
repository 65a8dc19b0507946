"""MirrorMaker's own records, byte for byte: checkpoints and heartbeats, so that its tools read what a mirror writes.

Strings are a 16-bit length and UTF-8; numbers are big-endian; a value begins with a 16-bit version, here 0. Described
by org.apache.kafka.connect.mirror.Checkpoint and .Heartbeat, and read by RemoteClusterUtils.translateOffsets.
"""

import struct
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Where a group stands on both sides. `topic` is the target's name."""

    group: str
    topic: str
    partition: int
    source_offset: int
    target_offset: int
    metadata: str = ""

    def key(self) -> bytes:
        """Return the record's key."""
        return string(self.group) + string(self.topic) + struct.pack(">i", self.partition)

    def value(self) -> bytes:
        """Return the record's value."""
        return struct.pack(">hqq", 0, self.source_offset, self.target_offset) + string(self.metadata)


def read_checkpoint(key: bytes, value: bytes) -> Checkpoint:
    """Return the checkpoint of a record. Raises ValueError if it is none."""
    try:
        group, at = read_string(key, 0)
        topic, at = read_string(key, at)
        (partition,) = struct.unpack_from(">i", key, at)
        version, source_offset, target_offset = struct.unpack_from(">hqq", value, 0)
        metadata, _ = read_string(value, 18)
    except (struct.error, UnicodeDecodeError) as error:
        raise ValueError(f"not a checkpoint: {error}") from error
    if version != 0:
        raise ValueError(f"unsupported checkpoint version {version}")
    return Checkpoint(
        group=group,
        topic=topic,
        partition=partition,
        source_offset=source_offset,
        target_offset=target_offset,
        metadata=metadata,
    )


def heartbeat(source: str, target: str, time_ms: int) -> tuple[bytes, bytes]:
    """Return key and value of a heartbeat."""
    return string(source) + string(target), struct.pack(">hq", 0, time_ms)


def string(text: str) -> bytes:
    """Return a string with its length in front."""
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def read_string(data: bytes, at: int) -> tuple[str, int]:
    """Return the string at a position, and the position behind it."""
    (size,) = struct.unpack_from(">h", data, at)
    end = at + 2 + size
    if size < 0 or end > len(data):
        raise struct.error("truncated string")
    return data[at + 2 : end].decode(), end
