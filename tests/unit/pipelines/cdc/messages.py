"""pgoutput's messages written by hand, from PostgreSQL's documentation of the format."""

import struct
from collections.abc import Sequence

EPOCH_US = 946_684_800_000_000
Cell = str | bytes | None  # text, unchanged (b"u"), null


def begin(commit_lsn: int, xid: int = 700, commit_us: int = 1_700_000_000_000_000) -> bytes:
    return b"B" + struct.pack("!qqi", commit_lsn, commit_us - EPOCH_US, xid)


def commit(commit_lsn: int, end_lsn: int, commit_us: int = 1_700_000_000_000_000) -> bytes:
    return b"C" + struct.pack("!bqqq", 0, commit_lsn, end_lsn, commit_us - EPOCH_US)


def relation(
    oid: int, schema: str, table: str, identity: str, columns: Sequence[tuple[str, int, bool]], modifier: int = -1
) -> bytes:
    head = b"R" + struct.pack("!i", oid) + schema.encode() + b"\0" + table.encode() + b"\0" + identity.encode()
    body = b"".join(
        struct.pack("!b", key) + name.encode() + b"\0" + struct.pack("!ii", type_oid, modifier)
        for name, type_oid, key in columns
    )
    return head + struct.pack("!h", len(columns)) + body


def row(*cells: Cell) -> bytes:
    parts = [struct.pack("!h", len(cells))]
    for cell in cells:
        if cell is None:
            parts.append(b"n")
        elif isinstance(cell, bytes):
            parts.append(cell)
        else:
            text = cell.encode()
            parts.append(b"t" + struct.pack("!i", len(text)) + text)
    return b"".join(parts)


def insert(oid: int, new: bytes) -> bytes:
    return b"I" + struct.pack("!i", oid) + b"N" + new


def update(oid: int, new: bytes, *, key: bytes | None = None, old: bytes | None = None) -> bytes:
    before = b"K" + key if key is not None else b"O" + old if old is not None else b""
    return b"U" + struct.pack("!i", oid) + before + b"N" + new


def delete(oid: int, *, key: bytes | None = None, old: bytes | None = None) -> bytes:
    before = b"K" + key if key is not None else b"O" + (old or b"")
    return b"D" + struct.pack("!i", oid) + before


def truncate(*oids: int) -> bytes:
    return b"T" + struct.pack("!ib", len(oids), 0) + struct.pack(f"!{len(oids)}i", *oids)
