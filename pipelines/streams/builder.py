"""StreamsBuilder: where a topology begins.

builder = StreamsBuilder()
lines = builder.stream("lines")
words = lines.flat_map_values("split(lower(value), ' ')")
words.group_by(lambda value: value).count(store="counts").to_stream().to("counts")
print(builder.build().describe())
"""

import re
from collections.abc import Sequence
from typing import Literal

from kvorum.pipelines.streams import kstream, ktable
from kvorum.pipelines.streams.errors import TopologyError
from kvorum.pipelines.streams.functions import Expression
from kvorum.pipelines.streams.graph import Graph
from kvorum.pipelines.streams.nodes import Source
from kvorum.pipelines.streams.serdes import Serde, Serdes
from kvorum.pipelines.streams.topology import Topology

Reset = Literal["earliest", "latest"]
Topics = str | Sequence[str] | re.Pattern[str]


class StreamsBuilder:
    """Collects what is built; build() returns it."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._graph = Graph()

    def stream(
        self,
        topics: Topics,
        *,
        key_serde: Serde | None = None,
        value_serde: Serde | None = None,
        timestamp_extractor: Expression | None = None,
        offset_reset: Reset = "earliest",
        named: str | None = None,
    ) -> "kstream.KStream":
        """Return the records of a topic, of several, or of all whose name a compiled pattern matches in full.

        Keys and values are strings unless a serde says more. Event time is the record's timestamp, unless an
        extractor (SQL, or a callable of key and value) takes it from elsewhere.
        """
        pattern = topics.pattern if isinstance(topics, re.Pattern) else None
        names = () if isinstance(topics, re.Pattern) else (topics,) if isinstance(topics, str) else tuple(topics)
        if pattern is None and not all(names):
            raise TopologyError("a stream needs at least one topic, and topic names are not empty")
        source = Source(
            topics=names,
            pattern=pattern,
            key_serde=key_serde or Serdes.string(),
            value_serde=value_serde or Serdes.string(),
            timestamp_extractor=timestamp_extractor,
            offset_reset=offset_reset,
        )
        return kstream.KStream(self._graph, self._graph.add(source, "KSTREAM-SOURCE", named=named))

    def table(
        self,
        topic: str,
        *,
        key_serde: Serde | None = None,
        value_serde: Serde | None = None,
        timestamp_extractor: Expression | None = None,
        store: str | None = None,
        named: str | None = None,
    ) -> "ktable.KTable":
        """Return a topic as a changelog: the last value of a key is its row, a null value its end."""
        return self._table(topic, key_serde, value_serde, timestamp_extractor, store, named, is_global=False)

    def global_table(
        self,
        topic: str,
        *,
        key_serde: Serde | None = None,
        value_serde: Serde | None = None,
        store: str | None = None,
        named: str | None = None,
    ) -> "ktable.GlobalKTable":
        """Return a table that streams may look up by any key, not only their own; its rows come before theirs."""
        made = self._table(topic, key_serde, value_serde, None, store, named, is_global=True)
        return ktable.GlobalKTable(made.node)

    def _table(
        self,
        topic: str,
        key_serde: Serde | None,
        value_serde: Serde | None,
        timestamp_extractor: Expression | None,
        store: str | None,
        named: str | None,
        *,
        is_global: bool,
    ) -> "ktable.KTable":
        source = Source(
            topics=(topic,),
            key_serde=key_serde or Serdes.string(),
            value_serde=value_serde or Serdes.string(),
            timestamp_extractor=timestamp_extractor,
            is_table=True,
            is_global=is_global,
        )
        node = self._graph.add(source, "KTABLE-SOURCE", named=named, store=store)
        return ktable.KTable(self._graph, node)

    def build(self) -> Topology:
        """Return what leads to a topic. Raises TopologyError for what cannot run."""
        return Topology.of(self._graph.dag())
