"""Follows the stream of pgoutput's messages and makes records of the transactions that are wanted. Pure.

States: between transactions (Begin, Relation may come) and in one (Relation, changes, Commit). A relation's shape is
kept from its description to its next one, transactions that are not wanted included: it is told once a session.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import assert_never

from kvorum.pipelines.cdc.envelope import Catalog, Envelopes, Origin, Record, StreamError, Table
from kvorum.pipelines.cdc.pgoutput import (
    Begin,
    Commit,
    Delete,
    Insert,
    Message,
    Other,
    Relation,
    Truncate,
    Update,
)

_OPERATIONS = {Insert: "c", Update: "u", Delete: "d", Truncate: "t"}


@dataclass(slots=True, kw_only=True)
class Transaction:
    """The transaction that is being read."""

    begin: Begin
    wanted: bool
    by_table: dict[str, int] = field(default_factory=dict)

    def identity(self) -> str:
        """Return its name: the number alone comes again after 2^32 transactions."""
        return f"{self.begin.xid}:{self.begin.commit_lsn}"


class Assembler:
    """Follows a stream of messages and returns the records of the transactions that are wanted.

    Wanted are those whose commit record starts at `start` or behind it, and before `end`: windows that meet lose and
    double nothing, whatever more the server sends.
    """

    def __init__(self, envelopes: Envelopes, catalog: Catalog, *, start: int, end: int) -> None:
        """Begin between two transactions."""
        self.envelopes = envelopes
        self.shape = envelopes.shape
        self.catalog = catalog
        self.start, self.end = start, end
        self.tables: dict[int, Table] = {}
        self.transaction: Transaction | None = None
        self.last_commit_lsn = start

    def feed(self, lsn: int, message: Message) -> Iterator[Record]:
        """Yield the records of one message. Raises StreamError."""
        match message:
            case Begin():
                wanted = self.start <= message.commit_lsn < self.end
                self.transaction = Transaction(begin=message, wanted=wanted)
            case Commit():
                yield from self._commit(message)
            case Relation():
                self.tables[message.oid] = Table(message, self.shape, self.catalog)
            case Insert() | Update() | Delete():
                yield from self._change(lsn, self._table(message.relation_oid), message)
            case Truncate():
                for oid in message.relation_oids:
                    yield from self._change(lsn, self._table(oid), message)
            case Other():
                pass
            case _:
                assert_never(message)

    def _table(self, oid: int) -> Table:
        table = self.tables.get(oid)
        if table is None:
            raise StreamError(f"change of an unknown relation {oid}")
        return table

    def _change(self, lsn: int, table: Table, change: Insert | Update | Delete | Truncate) -> Iterator[Record]:
        transaction = self.transaction
        if transaction is None:
            raise StreamError(f"a change of {table.relation.table} outside a transaction")
        if not transaction.wanted or not table.selected or _OPERATIONS[type(change)] in self.shape.skipped:
            return
        begin = transaction.begin
        origin = Origin(
            snapshot="false",
            committed_us=begin.commit_us,
            lsn=lsn,
            xid=begin.xid,
            sequence=f'["{self.last_commit_lsn}","{lsn}"]',
        )
        order = None
        if self.shape.transactions:
            if not transaction.by_table:
                yield self.envelopes.boundary(transaction.identity(), begin.commit_us, None)
            order = _order(transaction, table)
        match change:
            case Insert():
                yield from self.envelopes.insert(table, change, origin, order)
            case Update():
                yield from self.envelopes.update(table, change, origin, order)
            case Delete():
                yield from self.envelopes.delete(table, change, origin, order)
            case Truncate():
                yield from self.envelopes.truncate(table, origin, order)
            case _:
                assert_never(change)

    def _commit(self, commit: Commit) -> Iterator[Record]:
        transaction, self.transaction = self.transaction, None
        if transaction is None or transaction.begin.commit_lsn != commit.commit_lsn:
            raise StreamError("the commit does not belong to the open transaction")
        if transaction.by_table:
            yield self.envelopes.boundary(transaction.identity(), commit.commit_us, transaction.by_table)
        if transaction.wanted:
            self.last_commit_lsn = commit.end_lsn


def _order(transaction: Transaction, table: Table) -> dict[str, object]:
    """Count a change, and return what its event says of its place."""
    name = f"{table.relation.schema}.{table.relation.table}"
    transaction.by_table[name] = transaction.by_table.get(name, 0) + 1
    return {
        "id": transaction.identity(),
        "total_order": sum(transaction.by_table.values()),
        "data_collection_order": transaction.by_table[name],
    }
