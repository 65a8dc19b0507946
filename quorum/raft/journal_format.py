"""The journal's bytes: segment header, blocks, records; and the scan of a segment.

Sans-IO.

    segment  header (32): magic 8 bytes, version u16, 6 zeros, number u64, crc32c u32 of the 24 before, 4 zeros
             blocks, each 8-byte aligned, then zeros to the preallocated end
    block    header (20): magic u32, payload length u32, sequence u64, crc32c u32 of the 16 before and of the payload
             payload: records, zero-padded to the alignment behind it
    record   header (21): length u32, kind u8, index u64, term u64; then `length` bytes

A block is the content of one group commit. Sequence numbers go up by one over all segments, and block N + 1 is written
only after N was synced. This distinguishes a torn tail from a flipped bit: *a valid block after an invalid one proves
that the invalid one was durable once*, so the file was damaged; an invalid block with no valid one after it is a write
that a crash interrupted, and its content was never acknowledged. All numbers are little endian.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

SEGMENT_MAGIC: Final = b"KVORUMJ\0"
VERSION: Final = 1
SEGMENT_HEADER: Final = Struct("<8sH6xQI4x")
SEGMENT_HEADER_SIZE: Final = SEGMENT_HEADER.size
BLOCK_MAGIC: Final = 0x4B4C424B  # "KBLK" as bytes in the file
BLOCK_HEADER: Final = Struct("<IIQI")
BLOCK_HEADER_SIZE: Final = BLOCK_HEADER.size
RECORD_HEADER: Final = Struct("<IBQQ")
ALIGNMENT: Final = 8
_CHECKED: Final = Struct("<IIQ")
_PIECE_BYTES: Final = 16 * 1024
_MAGIC_BYTES: Final = BLOCK_MAGIC.to_bytes(4, "little")

assert SEGMENT_HEADER_SIZE == 32 and SEGMENT_HEADER_SIZE % ALIGNMENT == 0


class JournalCorrupt(Exception):
    """This node cannot have written the journal, so it must not start. The message names file and position."""


class RecordKind(IntEnum):
    """Effect of a record on replay."""

    ENTRY = 1
    """A Raft entry: index, term, command."""
    TRUNCATE = 2
    """Entries from index on are removed."""
    META = 3
    """Current term; the payload is the id voted for in it, int64, -1 for none."""
    START = 4
    """Entries below index are removed; entry `index` (of `term`) is the first one kept."""
    RESET = 5
    """All entries are removed; the log begins after (index, term), the end of a snapshot."""
    STATE = 6
    """State of the owner besides the log (identity, pinned voters): the payload replaces the previous one."""
    BASE = 7
    """First record of a segment: the log ends at (index, term) here."""


class Record(NamedTuple):
    """One record."""

    kind: int
    at: int
    """The entry's index."""
    term: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Scan:
    """Contents of a segment: its valid blocks as (sequence, records), and the position of the next block.

    `torn`: something other than zeros follows.
    """

    number: int
    blocks: list[tuple[int, list[Record]]]
    end: int
    torn: bool


def encode_segment_header(number: int) -> bytes:
    """Return the 32 bytes a segment begins with."""
    head = SEGMENT_HEADER.pack(SEGMENT_MAGIC, VERSION, number, 0)
    return SEGMENT_HEADER.pack(SEGMENT_MAGIC, VERSION, number, crc32c(head[:24]))


def decode_segment_header(data: bytes, path: str) -> int:
    """Return the segment's number. Raises JournalCorrupt; a newer version is refused by name."""
    if len(data) < SEGMENT_HEADER_SIZE:
        raise JournalCorrupt(f"{path}: {len(data)} bytes are not a segment header")
    magic, version, number, checksum = SEGMENT_HEADER.unpack_from(data)
    if magic != SEGMENT_MAGIC:
        raise JournalCorrupt(f"{path}: not a journal segment (magic {magic!r})")
    if crc32c(data[:24]) != checksum:
        raise JournalCorrupt(f"{path}: the segment header fails its checksum")
    if version > VERSION:
        raise JournalCorrupt(f"{path}: written by a newer Kvorum (journal version {version}, known is {VERSION})")
    return int(number)


def encode_record(kind: int, index: int, term: int, payload: bytes = b"") -> bytes:
    """Return a record's header; the payload follows it unchanged."""
    return RECORD_HEADER.pack(len(payload), kind, index, term)


def encode_block(parts: list[bytes], sequence: int) -> bytes:
    """Return a block over the records, padded to the alignment."""
    payload = b"".join(parts)
    checked = _CHECKED.pack(BLOCK_MAGIC, len(payload), sequence)
    checksum = crc32c(payload, crc32c(checked))
    padding = -(BLOCK_HEADER_SIZE + len(payload)) % ALIGNMENT
    return b"".join((BLOCK_HEADER.pack(BLOCK_MAGIC, len(payload), sequence, checksum), payload, bytes(padding)))


def _block_at(data: bytes, position: int) -> tuple[int, bytes, int] | None:
    """Return (sequence, payload, end) of the sound block at `position`, or None."""
    if position + BLOCK_HEADER_SIZE > len(data):
        return None
    magic, length, sequence, checksum = BLOCK_HEADER.unpack_from(data, position)
    start = position + BLOCK_HEADER_SIZE
    if magic != BLOCK_MAGIC or start + length > len(data):
        return None
    payload = data[start : start + length]
    if crc32c(payload, crc32c(data[position : position + 16])) != checksum:
        return None
    end = start + length
    return sequence, payload, end + -end % ALIGNMENT


def decode_records(payload: bytes, path: str) -> Iterator[Record]:
    """Yield a block's records. Raises JournalCorrupt: the checksum held, so this is a fault of the writer."""
    position = 0
    while position < len(payload):
        if position + RECORD_HEADER.size > len(payload):
            raise JournalCorrupt(f"{path}: truncated record header in a valid block")
        length, kind, index, term = RECORD_HEADER.unpack_from(payload, position)
        position += RECORD_HEADER.size
        if position + length > len(payload):
            raise JournalCorrupt(f"{path}: a record of {length} bytes exceeds its block")
        if kind not in RecordKind.__members__.values():
            raise JournalCorrupt(f"{path}: unknown record kind {kind}")
        yield Record(kind, index, term, payload[position : position + length])
        position += length


def scan_segment(data: bytes, path: str) -> Scan:
    """Read a complete segment. Raises JournalCorrupt if a valid block follows an invalid one."""
    number = decode_segment_header(data, path)
    blocks: list[tuple[int, list[Record]]] = []
    position = SEGMENT_HEADER_SIZE
    while (block := _block_at(data, position)) is not None:
        sequence, payload, end = block
        blocks.append((sequence, list(decode_records(payload, path))))
        position = end
    torn = position < len(data) and not _is_zero(data, position)
    if torn:
        _refuse_damage(data, position, blocks[-1][0] if blocks else -1, path)
    return Scan(number, blocks, position, torn)


def _is_zero(data: bytes, position: int) -> bool:
    """Return whether only zeros follow. Reads in pieces: a segment is large, and nearly all of it is unwritten."""
    zeros = bytes(_PIECE_BYTES)
    whole_end = position + (len(data) - position) // _PIECE_BYTES * _PIECE_BYTES
    for start in range(position, whole_end, _PIECE_BYTES):
        if data[start : start + _PIECE_BYTES] != zeros:
            return False
    return not any(data[whole_end:])


def _refuse_damage(data: bytes, position: int, last_sequence: int, path: str) -> None:
    """Raise JournalCorrupt if a sound block follows the unsound place at `position`."""
    found = data.find(_MAGIC_BYTES, position + 1)
    while found >= 0:
        if found % ALIGNMENT == 0:
            block = _block_at(data, found)
            if block is not None and block[0] > last_sequence:
                raise JournalCorrupt(
                    f"{path}: damaged at byte {position}: block {last_sequence + 1} is invalid, "
                    f"yet block {block[0]} at byte {found}, written after it was durable, is valid"
                )
        found = data.find(_MAGIC_BYTES, found + 1)
