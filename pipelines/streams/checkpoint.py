"""Check that the state of stream joins in a checkpoint has the time buckets that the topology uses now.

The buckets are part of the key of a join's state. Records in state with other buckets would be missed without an error,
so <checkpoint>/kvorum-streams/joins holds the windows that the buckets are made of, as JSON.
"""

import json

from pyspark.sql import SparkSession

from kvorum.pipelines.bridge.ledger import Folder
from kvorum.pipelines.streams.errors import TopologyError
from kvorum.pipelines.streams.nodes import StreamJoin
from kvorum.pipelines.streams.plan import Query
from kvorum.pipelines.streams.windows import JoinWindows, milliseconds

FOLDER = "kvorum-streams"
JOINS = "joins"


def check_joins(spark: SparkSession, checkpoint: str, query: Query) -> None:
    """Record the windows of a new checkpoint's joins, check those of an existing one. Raises TopologyError."""
    joins = {node.name: node.operation.windows for node in query.nodes() if isinstance(node.operation, StreamJoin)}
    if not joins:
        return
    folder = Folder(spark, checkpoint, FOLDER)
    recorded = folder.read(JOINS)
    has_state = bool(folder.listed(f"{checkpoint}/offsets"))
    if has_state:
        reason = difference(recorded, joins)
        if reason is not None:
            raise TopologyError(
                f"query {query.name} cannot continue from checkpoint {checkpoint}: {reason}; use a new application_id,"
                " which processes the input topics from their start, or run the previous version"
            )
    elif recorded != described(joins):
        folder.remove(JOINS)
        folder.write(JOINS, described(joins))


def described(joins: dict[str, JoinWindows]) -> str:
    """Return the windows of a query's joins, in the order of its nodes, as JSON."""
    return json.dumps([[milliseconds(each.before_by), milliseconds(each.after_by)] for each in joins.values()])


def difference(recorded: str | None, joins: dict[str, JoinWindows]) -> str | None:
    """Return why state with the recorded windows does not fit the joins; None if it does."""
    if recorded == described(joins):
        return None
    if recorded is None:
        return "its stream joins have no time buckets in their state, which an earlier version of Kvorum wrote"
    names = ", ".join(joins)
    return f"its state has joins of [before, after] ms {recorded}, {names} now has {described(joins)}"
