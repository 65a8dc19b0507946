"""From messages of pgoutput to records of topics, in the shape of Debezium's change events. Pure.

A table's topic is `prefix.schema.table`. A record's key is the row's key as a JSON object, its value the envelope:

    {"before": .., "after": .., "source": {..}, "op": "c" | "u" | "d" | "r" | "t", "ts_ms": .., "transaction": null}

Equal input gives equal bytes in every attempt: `ts_ms` is an argument, stored with the range of the log that is read,
and all else is from the log. A batch that is read again is therefore the same batch.

The key is the replica identity where that is the primary key or an index; else (FULL, NOTHING) the primary key from the
catalog, or message.key.columns. A row whose key changed is a delete of the old key and a create of the new one, so that
a consumer that keeps rows by key (a compacted topic, an upsert) has the table.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

import msgspec

from kvorum.pipelines.cdc.options import Options
from kvorum.pipelines.cdc.pgoutput import Begin, Change, Commit, Message, Missing, Other, Relation, Row, Truncate
from kvorum.pipelines.cdc.values import converter

NEW_KEY, OLD_KEY = "__debezium.newkey", "__debezium.oldkey"  # headers of the two records of a changed key
_ENCODER = msgspec.json.Encoder()
_ILLEGAL_IN_TOPIC = re.compile(r"[^a-zA-Z0-9._-]")

Fields = Mapping[str, object]


class StreamError(Exception):
    """The messages are inconsistent: a change of a relation that was not described, for example."""


class TableDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A relation with what its messages do not contain. A snapshot stores it as JSON."""

    relation: Relation
    key: tuple[str, ...]
    """Columns of the primary key; none if there is none."""
    base_types: dict[int, int]
    """Type under a domain, by the domain."""


Describe: TypeAlias = Callable[[Relation], TableDescription]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record of a topic."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp_us: int
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """`source` of an event besides its table. A snapshot's events belong to no transaction."""

    snapshot: str
    committed_us: int
    lsn: int
    xid: int | None
    sequence: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Fields common to all events of a batch. `ts_ms` is the time when the batch was planned."""

    options: Options
    version: str
    ts_ms: int


def topic_name(prefix: str, schema: str, table: str) -> str:
    """Return the topic of a table. Characters that a topic's name cannot have become underscores."""
    return _ILLEGAL_IN_TOPIC.sub("_", f"{prefix}.{schema}.{table}")


class Table:
    """A relation with the conversion of each of its cells, and the events of its rows."""

    __slots__ = ("batch", "convert", "key", "names", "relation", "selected", "topic")

    def __init__(self, relation: Relation, batch: Batch, describe: Describe) -> None:
        """Look up once what every row needs."""
        options = batch.options
        self.batch, self.relation = batch, relation
        self.selected = options.selects(relation.schema, relation.table)
        self.topic = topic_name(options.topic_prefix, relation.schema, relation.table)
        self.names = tuple(column.name for column in relation.columns)
        if self.selected:
            table = describe(relation)
            types = (table.base_types.get(column.type_oid, column.type_oid) for column in relation.columns)
            modes = (options.decimal_handling_mode, options.time_precision_mode, options.binary_handling_mode)
            self.convert = tuple(converter(type_oid, *modes) for type_oid in types)
            self.key = self._key_columns(table.key)

    def _key_columns(self, primary: Sequence[str]) -> tuple[str, ...]:
        """Return the key's columns, in the order of the table."""
        chosen = self.batch.options.message_key_columns.get(f"{self.relation.schema}.{self.relation.table}")
        if chosen is None and self.relation.replica_identity in "di":
            return tuple(column.name for column in self.relation.columns if column.identity)
        wanted = set(primary if chosen is None else chosen)
        found = tuple(name for name in self.names if name in wanted)
        return found if len(found) == len(wanted) else ()

    def _fields(self, row: Row) -> Fields:
        """Return a row's values for JSON. Raises StreamError."""
        if len(row) != len(self.names):
            raise StreamError(f"{self.relation.table} has {len(self.names)} columns, a row of it {len(row)}")
        missing = self.batch.options.unavailable_value_placeholder
        return {
            name: None if cell is None else missing if isinstance(cell, Missing) else convert(cell.decode())
            for name, convert, cell in zip(self.names, self.convert, row, strict=True)
        }

    def _key(self, fields: Fields) -> bytes | None:
        """Return the key of a row, or None for a table without one."""
        return _ENCODER.encode({name: fields[name] for name in self.key}) if self.key else None

    def _completed(self, change: Change) -> Row:
        """Return the new row, with unchanged values that are not in the log taken from the old one if it has them."""
        assert change.new is not None
        if change.old is None or Missing.UNCHANGED not in change.new:
            return change.new
        return tuple(
            before if cell is Missing.UNCHANGED and (change.old_is_whole or column.identity) else cell
            for cell, before, column in zip(change.new, change.old, self.relation.columns, strict=True)
        )

    def read(self, row: Row, origin: Origin) -> Record:
        """Return the event of a row of the snapshot."""
        return self._event("r", origin, after=self._fields(row))

    def truncate(self, origin: Origin) -> Record:
        """Return the event of an emptied table, which has no key."""
        return self._event("t", origin)

    def change(self, change: Change, origin: Origin) -> Iterator[Record]:
        """Yield the event of a change, and a tombstone for a deleted row. Another key is a delete and a create."""
        old = None if change.old is None else self._fields(change.old)
        if change.new is None:
            assert old is not None
            yield from self._deleted(old, origin)
            return
        new = self._fields(self._completed(change))
        if old is not None and self._key(old) != self._key(new):
            yield from self._deleted(old, origin, (NEW_KEY, self._key(new) or b""))
            yield self._event("c", origin, after=new, headers=((OLD_KEY, self._key(old) or b""),))
        else:
            before = old if change.old_is_whole else None
            yield self._event(change.operation, origin, before=before, after=new)

    def _deleted(self, old: Fields, origin: Origin, *headers: tuple[str, bytes]) -> Iterator[Record]:
        event = self._event("d", origin, before=old, headers=headers)
        yield event
        if self.batch.options.tombstones_on_delete and event.key is not None:
            yield Record(topic=self.topic, key=event.key, value=None, timestamp_us=origin.committed_us)

    def _event(
        self,
        operation: str,
        origin: Origin,
        *,
        before: Fields | None = None,
        after: Fields | None = None,
        headers: tuple[tuple[str, bytes], ...] = (),
    ) -> Record:
        fields = before if after is None else after
        source = {
            "version": self.batch.version,
            "connector": "postgresql",
            "name": self.batch.options.topic_prefix,
            "ts_ms": origin.committed_us // 1000,
            "snapshot": origin.snapshot,
            "db": self.batch.options.database_dbname,
            "sequence": origin.sequence,
            "schema": self.relation.schema,
            "table": self.relation.table,
            "txId": origin.xid,
            "lsn": origin.lsn,
            "xmin": None,
        }
        envelope = {"before": before, "after": after, "source": source, "op": operation, "ts_ms": self.batch.ts_ms}
        return Record(
            topic=self.topic,
            key=None if fields is None else self._key(fields),
            value=_ENCODER.encode(envelope | {"transaction": None}),
            timestamp_us=origin.committed_us,
            headers=headers,
        )


class Assembler:
    """Follows a stream of messages and returns the records of the transactions that are wanted.

    Those are the transactions whose commit record starts at `start` or after it, and before `end`: adjacent ranges lose
    and double nothing, whatever else the server sends.

    States: between transactions (Begin, Relation may come) and in one (Relation, changes, Commit). A relation's
    description is kept until its next one, also from transactions outside the range: it is sent once per session.
    """

    def __init__(self, batch: Batch, describe: Describe, *, start: int, end: int) -> None:
        """Begin between two transactions."""
        self.batch = batch
        self.describe = describe
        self.start, self.end = start, end
        self.tables: dict[int, Table] = {}
        self.transaction: Begin | None = None
        self.last_commit_lsn = start

    def feed(self, lsn: int, message: Message) -> Iterator[Record]:
        """Yield the records of one message. Raises StreamError."""
        match message:
            case Begin():
                self.transaction = message
            case Commit():
                begin, self.transaction = self.transaction, None
                if begin is None or begin.commit_lsn != message.commit_lsn:
                    raise StreamError("the commit does not belong to the open transaction")
                if self._is_wanted(begin):
                    self.last_commit_lsn = message.end_lsn
            case Relation():
                self.tables[message.oid] = Table(message, self.batch, self.describe)
            case Change():
                for table, origin in self._changed(lsn, message.operation, message.relation_oid):
                    yield from table.change(message, origin)
            case Truncate():
                for table, origin in self._changed(lsn, "t", *message.relation_oids):
                    yield table.truncate(origin)
            case Other():
                pass
            case _:
                assert_never(message)

    def _is_wanted(self, begin: Begin) -> bool:
        return self.start <= begin.commit_lsn < self.end

    def _changed(self, lsn: int, operation: str, *relation_oids: int) -> Iterator[tuple[Table, Origin]]:
        """Yield the changed tables whose events are wanted. Raises StreamError."""
        for oid in relation_oids:
            table, begin = self.tables.get(oid), self.transaction
            if table is None:
                raise StreamError(f"change of an unknown relation {oid}")
            if begin is None:
                raise StreamError(f"a change of {table.relation.table} outside a transaction")
            if self._is_wanted(begin) and table.selected and operation not in self.batch.options.skipped_operations:
                sequence = f'["{self.last_commit_lsn}","{lsn}"]'
                yield (
                    table,
                    Origin(snapshot="false", committed_us=begin.commit_us, lsn=lsn, xid=begin.xid, sequence=sequence),
                )
