"""Deletes records of internal topics that all queries which read them have processed, as Kafka Streams does. Sans-IO.

Internal topics have no retention, so that no record is removed before it was read, whatever its timestamp.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from kvorum.pipelines.bridge.offsets import Offsets, TopicPartition, from_json
from kvorum.pipelines.streams.config import StreamsConfig
from kvorum.pipelines.streams.nodes import Repartition
from kvorum.pipelines.streams.plan import Query

INTERVAL_SECONDS: Final = 30.0
"""Kafka Streams' repartition.purge.interval.ms."""


def readers(queries: Sequence[Query], config: StreamsConfig) -> dict[str, set[str]]:
    """Return the names of the queries that read each internal topic."""
    found: dict[str, set[str]] = {}
    for query in queries:
        for node in query.nodes():
            if node is not query.head and isinstance(node.operation, Repartition):
                found.setdefault(config.internal_topic(node.operation.suffix), set()).add(query.name)
    return found


def processed(readers: Mapping[str, set[str]], starts: Mapping[str, Sequence[str | None]]) -> Offsets:
    """Return, by partition of the internal topics, the offset below which no query needs a record any more.

    `starts` has, by query, where the last micro-batch of each of its sources started (Spark's JSON; None or null: there
    is none before it): everything below belongs to micro-batches that are committed.
    """
    found: Offsets = {}
    for topic, names in readers.items():
        begins = [_begins(topic, starts.get(name, ())) for name in names]
        for partition in set.intersection(*map(set, begins)) if begins else ():
            offset = min(each[partition] for each in begins)
            if offset > 0:
                found[TopicPartition(topic, partition)] = offset
    return found


def _begins(topic: str, sources: Sequence[str | None]) -> dict[int, int]:
    """Return the lowest start of each partition of a topic over a query's sources; none while one has not begun."""
    lowest: dict[int, int] = {}
    for source in sources:
        start = None if source is None else json.loads(source)
        if start is None:
            return {}
        for where, offset in from_json(start).items():
            if where.topic == topic:
                lowest[where.partition] = min(offset, lowest.get(where.partition, offset))
    return lowest
