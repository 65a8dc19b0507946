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
from collections.abc import Callable, Iterator, Mapping
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


def topic_name(prefix: str, schema: str, table: str) -> str:
    """Return the topic of a table. Characters that a topic's name cannot have become underscores."""
    return _ILLEGAL_IN_TOPIC.sub("_", f"{prefix}.{schema}.{table}")


class Table:
    """A relation with the conversion of each of its cells."""

    __slots__ = ("convert", "key", "names", "placeholder", "relation", "selected", "topic")

    def __init__(self, relation: Relation, options: Options, describe: Describe) -> None:
        """Look up once what every row needs."""
        self.relation = relation
        self.selected = options.selects(relation.schema, relation.table)
        self.topic = topic_name(options.topic_prefix, relation.schema, relation.table)
        self.names = tuple(column.name for column in relation.columns)
        self.placeholder = options.unavailable_value_placeholder
        if self.selected:
            table = describe(relation)
            types = (table.base_types.get(column.type_oid, column.type_oid) for column in relation.columns)
            self.convert = tuple(converter(type_oid, options.modes) for type_oid in types)
            self.key = self._key_columns(options, table)

    def _key_columns(self, options: Options, table: TableDescription) -> tuple[str, ...]:
        """Return the key's columns, in the order of the table."""
        relation = self.relation
        chosen = options.message_key_columns.get(f"{relation.schema}.{relation.table}")
        if chosen is None and relation.replica_identity in "di":
            return tuple(column.name for column in relation.columns if column.identity)
        wanted = set(table.key if chosen is None else chosen)
        found = tuple(name for name in self.names if name in wanted)
        return found if len(found) == len(wanted) else ()

    def fields(self, row: Row) -> Fields:
        """Return a row's values for JSON."""
        if len(row) != len(self.names):
            raise StreamError(f"{self.relation.table} has {len(self.names)} columns, a row of it {len(row)}")
        return {
            name: None if cell is None else self.placeholder if isinstance(cell, Missing) else convert(cell.decode())
            for name, convert, cell in zip(self.names, self.convert, row, strict=True)
        }

    def key_of(self, fields: Fields) -> bytes | None:
        """Return the key of a row, or None for a table without one."""
        return _ENCODER.encode({name: fields[name] for name in self.key}) if self.key else None

    def completed(self, change: Change) -> Row:
        """Return the new row, with unchanged values that are not in the log taken from the old one if it has them."""
        assert change.new is not None
        if change.old is None or Missing.UNCHANGED not in change.new:
            return change.new
        return tuple(
            before if cell is Missing.UNCHANGED and (change.old_is_whole or column.identity) else cell
            for cell, before, column in zip(change.new, change.old, self.relation.columns, strict=True)
        )


class Envelopes:
    """Makes records of changes. `ts_ms` is when the batch was planned, the same for all its records."""

    def __init__(self, options: Options, version: str, ts_ms: int) -> None:
        """Keep the options and Kvorum's version."""
        self.options = options
        self.version = version
        self.ts_ms = ts_ms

    def read(self, table: Table, row: Row, origin: Origin) -> Record:
        """Return the event of a row of the snapshot."""
        return self._event(table, "r", origin, after=table.fields(row))

    def truncate(self, table: Table, origin: Origin) -> Record:
        """Return the event of an emptied table, which has no key."""
        return self._event(table, "t", origin)

    def change(self, table: Table, change: Change, origin: Origin) -> Iterator[Record]:
        """Yield the event of a change, and a tombstone for a deleted row. Another key is a delete and a create."""
        old = None if change.old is None else table.fields(change.old)
        if change.new is None:
            assert old is not None
            yield from self._deleted(table, old, origin)
            return
        new = table.fields(table.completed(change))
        if old is not None and table.key_of(old) != table.key_of(new):
            yield from self._deleted(table, old, origin, (NEW_KEY, table.key_of(new) or b""))
            yield self._event(table, "c", origin, after=new, headers=((OLD_KEY, table.key_of(old) or b""),))
        else:
            before = old if change.old_is_whole else None
            yield self._event(table, change.operation, origin, before=before, after=new)

    def _deleted(self, table: Table, old: Fields, origin: Origin, *headers: tuple[str, bytes]) -> Iterator[Record]:
        event = self._event(table, "d", origin, before=old, headers=headers)
        yield event
        if self.options.tombstones_on_delete and event.key is not None:
            yield Record(topic=table.topic, key=event.key, value=None, timestamp_us=origin.committed_us)

    def _event(
        self,
        table: Table,
        operation: str,
        origin: Origin,
        *,
        before: Fields | None = None,
        after: Fields | None = None,
        headers: tuple[tuple[str, bytes], ...] = (),
    ) -> Record:
        fields = before if after is None else after
        source = {
            "version": self.version,
            "connector": "postgresql",
            "name": self.options.topic_prefix,
            "ts_ms": origin.committed_us // 1000,
            "snapshot": origin.snapshot,
            "db": self.options.database_dbname,
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
            "op": operation,
            "ts_ms": self.ts_ms,
            "transaction": None,
        }
        return Record(
            topic=table.topic,
            key=None if fields is None else table.key_of(fields),
            value=_ENCODER.encode(envelope),
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

    def __init__(self, envelopes: Envelopes, describe: Describe, *, start: int, end: int) -> None:
        """Begin between two transactions."""
        self.envelopes = envelopes
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
                self._commit(message)
            case Relation():
                self.tables[message.oid] = Table(message, self.envelopes.options, self.describe)
            case Change():
                table, origin = self._changed(lsn, message.relation_oid, message.operation)
                if origin is not None:
                    yield from self.envelopes.change(table, message, origin)
            case Truncate():
                for oid in message.relation_oids:
                    table, origin = self._changed(lsn, oid, "t")
                    if origin is not None:
                        yield self.envelopes.truncate(table, origin)
            case Other():
                pass
            case _:
                assert_never(message)

    def _is_wanted(self, begin: Begin) -> bool:
        return self.start <= begin.commit_lsn < self.end

    def _changed(self, lsn: int, relation_oid: int, operation: str) -> tuple[Table, Origin | None]:
        """Return a change's table, and its origin if it is wanted. Raises StreamError."""
        table, begin = self.tables.get(relation_oid), self.transaction
        if table is None:
            raise StreamError(f"change of an unknown relation {relation_oid}")
        if begin is None:
            raise StreamError(f"a change of {table.relation.table} outside a transaction")
        skipped = self.envelopes.options.skipped_operations
        if not self._is_wanted(begin) or not table.selected or operation in skipped:
            return table, None
        sequence = f'["{self.last_commit_lsn}","{lsn}"]'
        return table, Origin(snapshot="false", committed_us=begin.commit_us, lsn=lsn, xid=begin.xid, sequence=sequence)

    def _commit(self, commit: Commit) -> None:
        begin, self.transaction = self.transaction, None
        if begin is None or begin.commit_lsn != commit.commit_lsn:
            raise StreamError("the commit does not belong to the open transaction")
        if self._is_wanted(begin):
            self.last_commit_lsn = commit.end_lsn
