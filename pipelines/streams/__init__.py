"""Kafka Streams' role, in its words, over Spark Structured Streaming: docs/pipelines/streams.md is for users.

dsl            writes nodes down (topology); nothing runs
topology       cuts the graph into queries that Spark can run
run            makes DataFrames of them (operators, state) and starts them on a cluster
"""

from kvorum.pipelines.streams.dsl import (
    BranchedKStream,
    GlobalKTable,
    KGroupedStream,
    KGroupedTable,
    KStream,
    KTable,
    StreamsBuilder,
)
from kvorum.pipelines.streams.functions import TopologyError
from kvorum.pipelines.streams.run import State, Streams, StreamsConfig
from kvorum.pipelines.streams.serdes import Serde, Serdes
from kvorum.pipelines.streams.topology import Topology
from kvorum.pipelines.streams.windows import JoinWindows, SessionWindows, Suppressed, TimeWindows

__all__ = [
    "BranchedKStream", "GlobalKTable", "JoinWindows", "KGroupedStream", "KGroupedTable", "KStream", "KTable",
    "Serde", "Serdes", "SessionWindows", "State", "Streams", "StreamsBuilder",
    "StreamsConfig", "Suppressed", "TimeWindows", "Topology", "TopologyError",
]  # fmt: skip
