"""StreamsBuilder: where a topology begins.

builder = StreamsBuilder()
lines = builder.stream("lines")
words = lines.flat_map_values("split(lower(value), ' ')")
words.group_by(lambda value: value).count(store="counts").to_stream().to("counts")
print(builder.build().describe())
"""

import re
from collections.abc import Sequence
from typing import Final, Literal

from kvorum.pipelines.streams.dsl import GlobalKTable, KStream, KTable
from kvorum.pipelines.streams.errors import TopologyError
from kvorum.pipelines.streams.functions import Expression
from kvorum.pipelines.streams.nodes import Graph, Source
from kvorum.pipelines.streams.plan import Topology
from kvorum.pipelines.streams.serdes import Serde, Serdes

TEXT: Final = Serdes.string()


class StreamsBuilder:
    """Collects what is built; build() returns it."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._graph = Graph()

    def stream(
        self,
        topics: str | Sequence[str] | re.Pattern[str],
        *,
        key_serde: Serde = TEXT,
        value_serde: Serde = TEXT,
        timestamp_extractor: Expression | None = None,
        offset_reset: Literal["earliest", "latest"] = "earliest",
        named: str | None = None,
    ) -> KStream:
        """Return the records of a topic, of several, or of all whose name a compiled pattern matches in full.

        Keys and values are strings unless a serde says more. Event time is the record's timestamp, unless an
        extractor (SQL, or a callable of key and value) takes it from elsewhere.
        """
        pattern = topics.pattern if isinstance(topics, re.Pattern) else None
        names = () if isinstance(topics, re.Pattern) else (topics,) if isinstance(topics, str) else tuple(topics)
        if pattern is None and not (names and all(names)):
            raise TopologyError("a stream needs at least one topic, and topic names are not empty")
        source = Source(
            topics=names,
            pattern=pattern,
            key_serde=key_serde,
            value_serde=value_serde,
            timestamp_extractor=timestamp_extractor,
            offset_reset=offset_reset,
        )
        return KStream(self._graph, self._graph.add(source, "KSTREAM-SOURCE", named=named))

    def table(
        self,
        topic: str,
        *,
        key_serde: Serde = TEXT,
        value_serde: Serde = TEXT,
        timestamp_extractor: Expression | None = None,
        store: str | None = None,
        named: str | None = None,
    ) -> KTable:
        """Return a topic as a changelog: the last value of a key is its row, a null value its end."""
        source = Source(
            topics=(topic,),
            key_serde=key_serde,
            value_serde=value_serde,
            timestamp_extractor=timestamp_extractor,
            is_table=True,
        )
        return KTable(self._graph, self._graph.add(source, "KTABLE-SOURCE", named=named, store=store))

    def global_table(
        self,
        topic: str,
        *,
        key_serde: Serde = TEXT,
        value_serde: Serde = TEXT,
        store: str | None = None,
        named: str | None = None,
    ) -> GlobalKTable:
        """Return a table that streams may look up by any key, not only their own; its rows come before theirs."""
        source = Source(topics=(topic,), key_serde=key_serde, value_serde=value_serde, is_table=True, is_global=True)
        return GlobalKTable(self._graph.add(source, "KTABLE-SOURCE", named=named, store=store))

    def build(self) -> Topology:
        """Return what leads to a topic. Raises TopologyError for what cannot run."""
        return Topology.of(self._graph.sinks)
