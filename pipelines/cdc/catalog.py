"""Catalog of tables and types: for keys that the log does not contain, and for the snapshot."""

from dataclasses import dataclass

from psycopg import sql

from kvorum.pipelines.cdc.database import Connection, ask
from kvorum.pipelines.cdc.options import Options
from kvorum.pipelines.cdc.pgoutput import Column, Relation

FIRST_CUSTOM_OID = 16_384  # types below come with PostgreSQL, and none of them that a table can have is a domain

_KEY = """
SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid
WHERE i.indrelid = %s::oid AND CASE WHEN %s = 'i' THEN i.indisreplident ELSE i.indisprimary END
AND EXISTS (SELECT FROM generate_series(0, i.indnkeyatts - 1) n WHERE i.indkey[n] = a.attnum)
"""
_TABLES = """
SELECT p.schemaname, p.tablename, to_jsonb(p) -> 'attnames', to_jsonb(p) ->> 'rowfilter', c.oid, c.relreplident::text,
       c.relkind::text
FROM pg_publication_tables p JOIN pg_namespace n ON n.nspname = p.schemaname
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename
WHERE p.pubname = %s ORDER BY 1, 2
"""
_COLUMNS = """
SELECT attname, atttypid, atttypmod FROM pg_attribute
WHERE attrelid = %s::oid AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum
"""


class LiveCatalog:
    """Asks the database, once for each table and type."""

    def __init__(self, connection: Connection) -> None:
        """Begin knowing nothing."""
        self._connection = connection
        self._keys: dict[int, list[str]] = {}
        self._types: dict[int, int] = {}

    def primary_key(self, relation_oid: int) -> list[str]:
        """Return the columns of the primary key; none if there is none."""
        if relation_oid not in self._keys:
            self._keys[relation_oid] = [name for (name,) in ask(self._connection, _KEY, relation_oid, "d")]
        return self._keys[relation_oid]

    def base_type(self, type_oid: int) -> int:
        """Return the type under a domain; the type itself if it is none, or is not there any more."""
        if type_oid < FIRST_CUSTOM_OID:
            return type_oid
        if type_oid not in self._types:
            query = "SELECT typbasetype FROM pg_type WHERE oid = %s::oid AND typtype = 'd'"
            rows = ask(self._connection, query, type_oid)
            self._types[type_oid] = self.base_type(rows[0][0]) if rows else type_oid
        return self._types[type_oid]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A table whose changes the publication has, and the statement that copies what is in it."""

    relation: Relation
    primary_key: tuple[str, ...]
    base_types: dict[int, int]
    copy: sql.Composed


def published_tables(connection: Connection, options: Options) -> list[Published]:
    """Return the tables of the publication that the options select, by name."""
    catalog = LiveCatalog(connection)
    found = []
    for schema, table, names, row_filter, oid, identity, kind in ask(connection, _TABLES, options.publication_name):
        if not options.selects(schema, table):
            continue
        key = {name for (name,) in ask(connection, _KEY, oid, identity)} if identity in "di" else set()
        columns = tuple(
            Column(name=name, type_oid=type_oid, type_modifier=modifier, identity=identity == "f" or name in key)
            for name, type_oid, modifier in ask(connection, _COLUMNS, oid)
            if names is None or name in names
        )
        if not columns:
            continue  # a table of no columns has nothing to tell
        relation = Relation(oid=oid, schema=schema, table=table, replica_identity=identity, columns=columns)
        types = {column.type_oid: catalog.base_type(column.type_oid) for column in columns}
        found.append(
            Published(
                relation=relation,
                primary_key=tuple(catalog.primary_key(oid)),
                base_types={oid: base for oid, base in types.items() if oid != base},
                copy=_copy(relation, row_filter, only=kind != "p"),
            )
        )
    return found


def _copy(relation: Relation, row_filter: str | None, *, only: bool) -> sql.Composed:
    """Return the statement that writes a table as text, in the publication's columns and rows.

    A table's children have their own place in the publication, unless it is partitioned and published by its root.
    """
    statement = sql.SQL("COPY (SELECT {} FROM {}{}").format(
        sql.SQL(", ").join(sql.Identifier(column.name) for column in relation.columns),
        sql.SQL("ONLY " if only else ""),
        sql.Identifier(relation.schema, relation.table),
    )
    if row_filter is not None:
        statement += sql.SQL(" WHERE ") + sql.SQL(row_filter)  # the catalog's own SQL
    return statement + sql.SQL(") TO STDOUT")
