"""Decoders of PostgreSQL's output plug-in `pgoutput` (proto_version 1) and of COPY's text format. Sans-IO.

One call of `decode` takes one message, as a row of pg_logical_slot_peek_binary_changes holds it. The order of a
transaction: Begin, its changes, Commit. A relation is described before its first change, and when its shape changed.
Source: PostgreSQL's documentation, "Logical Replication Message Formats".
"""

import enum
import re
import struct
from dataclasses import dataclass
from typing import Literal, TypeAlias

EPOCH_US = 946_684_800_000_000  # 2000-01-01, PostgreSQL's epoch, in microseconds of the Unix epoch

_BEGIN = struct.Struct("!qqI")
_COMMIT = struct.Struct("!Bqqq")
_TRUNCATE = struct.Struct("!iB")
_COLUMN_TYPE = struct.Struct("!Ii")
_INT16 = struct.Struct("!h")
_INT32 = struct.Struct("!i")
_OID = struct.Struct("!I")
_TEXT, _NULL, _UNCHANGED = b"tnu"
_COPY_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_COPY_ESCAPES = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


class DecodeError(ValueError):
    """A message is truncated, too long, or of a kind that proto_version 1 does not have."""


class Missing(enum.Enum):
    """Placeholder for a value that is not in the log."""

    UNCHANGED = "unchanged"  # a TOASTed value that the update did not touch


Cell: TypeAlias = bytes | Missing | None  # text form of the value, SQL null, or not there
Row: TypeAlias = tuple[Cell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """A transaction begins. `commit_lsn` is where its commit record starts; `commit_us` is Unix time."""

    commit_lsn: int
    commit_us: int
    xid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The transaction's last message."""

    commit_lsn: int
    end_lsn: int
    commit_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a relation. `identity`: part of the replica identity (all columns are, where that is FULL)."""

    name: str
    type_oid: int
    type_modifier: int
    identity: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A table's shape from here on. `replica_identity`: d(efault), n(othing), f(ull) or i(ndex)."""

    oid: int
    schema: str
    table: str
    replica_identity: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A changed row. `old` of an update is there if the replica identity is FULL, or if it changed."""

    operation: Literal["c", "u", "d"]
    relation_oid: int
    old: Row | None = None
    old_is_whole: bool = False
    """Else only the replica identity's columns are filled."""
    new: Row | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    """Tables that were emptied, in the order of the statement."""

    relation_oids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    """A message that changes no row: Origin, Type, logical Message. Its content is not read."""

    kind: str


Message: TypeAlias = Begin | Commit | Relation | Change | Truncate | Other


class _Reader:
    """A position in one message."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, size: int) -> bytes:
        end = self.position + size
        if end > len(self.data):
            raise DecodeError(f"{size} bytes wanted at {self.position} of {len(self.data)}")
        found = self.data[self.position : end]
        self.position = end
        return found

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        return layout.unpack(self.take(layout.size))

    def expect(self, kinds: bytes) -> bytes:
        """Read the kind of a row."""
        kind = self.take(1)
        if kind not in kinds:
            raise DecodeError(f"row kind {kind!r}, expected one of {kinds!r}")
        return kind

    def string(self) -> str:
        end = self.data.find(b"\0", self.position)
        if end < 0:
            raise DecodeError(f"no end of the string at {self.position}")
        try:
            found = self.data[self.position : end].decode()
        except UnicodeDecodeError as error:
            raise DecodeError(f"a name that is not UTF-8 at {self.position}") from error
        self.position = end + 1
        return found

    def row(self) -> Row:
        """Read a row. Half of all the time goes by here, so it does without the smaller steps above."""
        (count,) = self.unpack(_INT16)
        data, position = self.data, self.position
        cells: list[Cell] = []
        try:
            for _ in range(count):
                kind = data[position]
                position += 1
                if kind == _TEXT:
                    (size,) = _INT32.unpack_from(data, position)
                    start, position = position + 4, position + 4 + size
                    if size < 0 or position > len(data):
                        raise DecodeError(f"{size} bytes wanted at {start} of {len(data)}")
                    cells.append(data[start:position])
                elif kind == _NULL:
                    cells.append(None)
                elif kind == _UNCHANGED:
                    cells.append(Missing.UNCHANGED)
                else:
                    raise DecodeError(f"a value of kind {kind}")
        except (IndexError, struct.error) as error:
            raise DecodeError(f"row truncated at {len(data)}") from error
        self.position = position
        return tuple(cells)


def decode(data: bytes) -> Message:
    """Return the one message that `data` is.

    Raises: DecodeError if it is anything else; the stream cannot be followed any further then.
    """
    kind, reader = data[:1], _Reader(data)
    if kind in (b"O", b"Y", b"M"):
        return Other(kind=kind.decode())
    reader.position = 1
    message = _message(kind, reader)
    if reader.position != len(data):
        raise DecodeError(f"{len(data) - reader.position} bytes after a message of kind {kind!r}")
    return message


def _message(kind: bytes, reader: _Reader) -> Message:
    match kind:
        case b"I" | b"U" | b"D":
            return _change(kind, reader)
        case b"B":
            commit_lsn, commit_us, xid = reader.unpack(_BEGIN)
            return Begin(commit_lsn=commit_lsn, commit_us=commit_us + EPOCH_US, xid=xid)
        case b"C":
            _, commit_lsn, end_lsn, commit_us = reader.unpack(_COMMIT)
            return Commit(commit_lsn=commit_lsn, end_lsn=end_lsn, commit_us=commit_us + EPOCH_US)
        case b"R":
            return _relation(reader)
        case b"T":
            count, _ = reader.unpack(_TRUNCATE)
            return Truncate(relation_oids=tuple(reader.unpack(_OID)[0] for _ in range(count)))
        case _:
            raise DecodeError(f"a message of kind {kind!r}")


def _change(kind: bytes, reader: _Reader) -> Change:
    (oid,), old = reader.unpack(_OID), None
    before = reader.expect({b"I": b"N", b"U": b"KON", b"D": b"KO"}[kind])
    if before != b"N":
        old = reader.row()
        if kind == b"D":
            return Change(operation="d", relation_oid=oid, old=old, old_is_whole=before == b"O")
        reader.expect(b"N")
    operation: Literal["c", "u"] = "c" if kind == b"I" else "u"
    return Change(operation=operation, relation_oid=oid, old=old, old_is_whole=before == b"O", new=reader.row())


def _relation(reader: _Reader) -> Relation:
    (oid,) = reader.unpack(_OID)
    schema, table = reader.string() or "pg_catalog", reader.string()
    replica_identity = reader.take(1).decode("latin-1")
    (count,) = reader.unpack(_INT16)
    columns = []
    for _ in range(count):
        flags, name = reader.take(1)[0], reader.string()
        type_oid, type_modifier = reader.unpack(_COLUMN_TYPE)
        columns.append(Column(name=name, type_oid=type_oid, type_modifier=type_modifier, identity=bool(flags & 1)))
    return Relation(oid=oid, schema=schema, table=table, replica_identity=replica_identity, columns=tuple(columns))


def parse_lsn(text: str) -> int:
    """Return the number that PostgreSQL writes as `16/B374D848`."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def format_lsn(lsn: int) -> str:
    """Return the position as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parse_line(line: bytes) -> Row:
    r"""Return the row of a line of COPY: tabs between columns, \N for null, a backslash before what is not plain."""
    fields = line.removesuffix(b"\n").split(b"\t")
    if b"\\" not in line:
        return tuple(fields)
    plain = lambda escape: _COPY_ESCAPES.get(escape[1], escape[1])  # noqa: E731
    return tuple(None if field == rb"\N" else _COPY_ESCAPE.sub(plain, field) for field in fields)
