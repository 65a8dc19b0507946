"""From messages of pgoutput to records of topics, in the shape of Debezium's change events. Pure.

A table's topic is `prefix.schema.table`. A record's key is the row's key as a JSON object, its value the envelope:

    {"before": .., "after": .., "source": {..}, "op": "c" | "u" | "d" | "r" | "t", "ts_ms": .., "transaction": ..}

Equal input gives equal bytes, whoever reads it and however often: `ts_ms` is handed in with the stretch of the log that
is read, and all else is of the log. A batch that is read again is therefore the same batch.

The key is the replica identity where that is the primary key or an index; else (FULL, NOTHING) the primary key the
catalog names, or what message.key.columns says. A row whose key changed is a delete of the old key and a create of the
new one, so that whoever keeps rows by key (a compacted topic, an upsert) ends up with the table.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from kvorum.pipelines.cdc.pgoutput import Delete, Insert, Missing, Relation, Row, Update
from kvorum.pipelines.cdc.values import Convert, Modes, converter

NEW_KEY, OLD_KEY = "__debezium.newkey", "__debezium.oldkey"  # headers of the two records of a changed key

_ENCODER = msgspec.json.Encoder()
_ILLEGAL_IN_TOPIC = re.compile(r"[^a-zA-Z0-9._-]")


class StreamError(Exception):
    """The stream does not say what it has to: a change of a relation that was not described, say."""


class Catalog(Protocol):
    """Information on tables from the database that the log does not contain."""

    def primary_key(self, relation_oid: int) -> Sequence[str]:
        """Return the columns of the primary key; none if there is none."""
        ...

    def base_type(self, type_oid: int) -> int:
        """Return the type under a domain; the type itself if it is none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record of a topic."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp_us: int
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How events look, as the user set it."""

    prefix: str
    database: str
    version: str
    modes: Modes = field(default_factory=Modes)
    tombstones: bool = True
    transactions: bool = False
    skipped: frozenset[str] = frozenset()
    placeholder: str = "__debezium_unavailable_value"
    key_columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    selects: Callable[[str, str], bool] = lambda schema, table: True


def topic_name(prefix: str, schema: str, table: str) -> str:
    """Return the topic of a table. What a topic's name cannot hold becomes an underscore."""
    return _ILLEGAL_IN_TOPIC.sub("_", f"{prefix}.{schema}.{table}")


class Table:
    """A relation made ready: what to do with each of its cells."""

    __slots__ = ("convert", "key", "names", "placeholder", "relation", "selected", "topic")

    def __init__(self, relation: Relation, shape: Shape, catalog: Catalog) -> None:
        """Look up once what every row needs."""
        self.relation = relation
        self.selected = shape.selects(relation.schema, relation.table)
        self.topic = topic_name(shape.prefix, relation.schema, relation.table)
        self.names = tuple(column.name for column in relation.columns)
        self.convert: tuple[Convert, ...] = ()
        self.key: tuple[int, ...] = ()
        self.placeholder = shape.placeholder
        if self.selected:
            self.convert = tuple(
                converter(catalog.base_type(column.type_oid), shape.modes) for column in relation.columns
            )
            self.key = self._key_columns(shape, catalog)

    def _key_columns(self, shape: Shape, catalog: Catalog) -> tuple[int, ...]:
        """Return where the key's columns are, in the order of the table."""
        relation = self.relation
        chosen = shape.key_columns.get(f"{relation.schema}.{relation.table}")
        if chosen is None and relation.replica_identity in "di":
            return tuple(index for index, column in enumerate(relation.columns) if column.identity)
        wanted = set(catalog.primary_key(relation.oid) if chosen is None else chosen)
        found = tuple(index for index, name in enumerate(self.names) if name in wanted)
        return found if len(found) == len(wanted) else ()

    def fields(self, row: Row) -> dict[str, object]:
        """Return a row as JSON holds it."""
        if len(row) != len(self.names):
            raise StreamError(f"{self.relation.table} has {len(self.names)} columns, a row of it {len(row)}")
        return {
            name: None if cell is None else self.placeholder if isinstance(cell, Missing) else convert(cell.decode())
            for name, convert, cell in zip(self.names, self.convert, row, strict=True)
        }

    def key_of(self, fields: Mapping[str, object]) -> bytes | None:
        """Return the key of a row, or None for a table without one."""
        if not self.key:
            return None
        return _ENCODER.encode({self.names[index]: fields[self.names[index]] for index in self.key})

    def completed(self, new: Row, old: Row | None, old_is_whole: bool) -> Row:
        """Return the new row with what it left out, where the old one has it."""
        if old is None or Missing.UNCHANGED not in new:
            return new
        columns = self.relation.columns
        return tuple(
            before if cell is Missing.UNCHANGED and (old_is_whole or column.identity) else cell
            for cell, before, column in zip(new, old, columns, strict=True)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """`source` of an event besides its table. A snapshot's events belong to no transaction."""

    snapshot: str
    committed_us: int
    lsn: int
    xid: int | None
    sequence: str | None = None


class Envelopes:
    """Makes records of changes. `ts_ms` is when the batch was planned, the same for all its records."""

    def __init__(self, shape: Shape, ts_ms: int) -> None:
        """Make what makes records."""
        self.shape = shape
        self.ts_ms = ts_ms

    def read(self, table: Table, row: Row, origin: Origin) -> Record:
        """Return the event of a row of the snapshot."""
        return self._event(table, "r", None, table.fields(row), origin, None)

    def insert(self, table: Table, change: Insert, origin: Origin, order: object) -> Iterator[Record]:
        """Yield what a new row is: one event."""
        yield self._event(table, "c", None, table.fields(change.new), origin, order)

    def update(self, table: Table, change: Update, origin: Origin, order: object) -> Iterator[Record]:
        """Yield what a changed row is: one event, or those of a delete and of a create if its key is another."""
        new = table.fields(table.completed(change.new, change.old, change.old_is_whole))
        old = None if change.old is None else table.fields(change.old)
        if old is not None and table.key_of(old) != table.key_of(new):
            old_key, new_key = table.key_of(old) or b"", table.key_of(new) or b""
            yield from self._deleted(table, old, origin, order, ((NEW_KEY, new_key),))
            yield self._event(table, "c", None, new, origin, order, ((OLD_KEY, old_key),))
        else:
            yield self._event(table, "u", old if change.old_is_whole else None, new, origin, order)

    def delete(self, table: Table, change: Delete, origin: Origin, order: object) -> Iterator[Record]:
        """Yield what a deleted row is: the event, and a tombstone."""
        yield from self._deleted(table, table.fields(change.old), origin, order, ())

    def truncate(self, table: Table, origin: Origin, order: object) -> Iterator[Record]:
        """Yield the event of an emptied table, which has no key."""
        value = self._value(table, "t", None, None, origin, order)
        yield Record(topic=table.topic, key=None, value=value, timestamp_us=origin.committed_us)

    def boundary(self, identity: str, committed_us: int, counts: Mapping[str, int] | None) -> Record:
        """Return the record of `prefix.transaction` that says where a transaction begins or, with counts, ends."""
        tables = [{"data_collection": name, "event_count": count} for name, count in (counts or {}).items()]
        value = {
            "status": "BEGIN" if counts is None else "END",
            "id": identity,
            "event_count": None if counts is None else sum(counts.values()),
            "data_collections": None if counts is None else tables,
            "ts_ms": committed_us // 1000,
        }
        return Record(
            topic=_ILLEGAL_IN_TOPIC.sub("_", f"{self.shape.prefix}.transaction"),
            key=_ENCODER.encode({"id": identity}),
            value=_ENCODER.encode(value),
            timestamp_us=committed_us,
        )

    def _deleted(
        self,
        table: Table,
        old: Mapping[str, object],
        origin: Origin,
        order: object,
        headers: tuple[tuple[str, bytes], ...],
    ) -> Iterator[Record]:
        event = self._event(table, "d", old, None, origin, order, headers)
        yield event
        if self.shape.tombstones and event.key is not None:
            yield Record(topic=table.topic, key=event.key, value=None, timestamp_us=origin.committed_us)

    def _event(
        self,
        table: Table,
        op: str,
        before: Mapping[str, object] | None,
        after: Mapping[str, object] | None,
        origin: Origin,
        order: object,
        headers: tuple[tuple[str, bytes], ...] = (),
    ) -> Record:
        fields = before if after is None else after
        assert fields is not None
        return Record(
            topic=table.topic,
            key=table.key_of(fields),
            value=self._value(table, op, before, after, origin, order),
            timestamp_us=origin.committed_us,
            headers=headers,
        )

    def _value(
        self,
        table: Table,
        op: str,
        before: Mapping[str, object] | None,
        after: Mapping[str, object] | None,
        origin: Origin,
        order: object,
    ) -> bytes:
        source = {
            "version": self.shape.version,
            "connector": "postgresql",
            "name": self.shape.prefix,
            "ts_ms": origin.committed_us // 1000,
            "snapshot": origin.snapshot,
            "db": self.shape.database,
            "sequence": origin.sequence,
            "schema": table.relation.schema,
            "table": table.relation.table,
            "txId": origin.xid,
            "lsn": origin.lsn,
            "xmin": None,
        }
        envelope = {
            "before": before,
            "after": after,
            "source": source,
            "op": op,
            "ts_ms": self.ts_ms,
            "transaction": order,
        }
        return _ENCODER.encode(envelope)
