"""Zigzag varints: the encoding of lengths, deltas and counts inside a record batch. Sans-IO.

Seven bits per byte, the lowest first; the eighth means that more follow. The sign is the lowest bit of the value, so
that small negative ones are short too. Source: Kafka's ByteUtils.readVarint, readVarlong.
"""


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return (value, next position) of a zigzag varint of at most 64 bits. Raises IndexError, ValueError."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
        if shift > 63:
            raise ValueError("a varint is longer than ten bytes")


def append_varint(target: bytearray, value: int) -> None:
    """Append a value of up to 64 bits as a zigzag varint."""
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    while rest > 0x7F:
        target.append((rest & 0x7F) | 0x80)
        rest >>= 7
    target.append(rest)
