"""Reading a stretch of a topic as a batch: which offsets there are, and the frame of a range of them."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # documented, not in __all__
from pyspark.sql import DataFrame, SparkSession

from kvorum.pipelines.bridge import client, register
from kvorum.pipelines.bridge.lookup import Lookup
from kvorum.pipelines.bridge.offsets import EARLIEST, LATEST, Offsets, TopicPartition, to_json

Bounds = dict[int, int]
"""An offset by partition number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster and how its clients are set."""

    bootstrap: str
    options: Mapping[str, str] = field(default_factory=dict)
    """kafka.security.protocol and so on."""

    def settings(self) -> dict[str, str]:
        """Return the options of a reader or a writer."""
        return {"kafka.bootstrap.servers": self.bootstrap, **self.options}

    def lookup(self) -> Lookup:
        """Return a client that asks."""
        return Lookup(client.from_options(self.settings()))


class Records:
    """The records of one topic that readers at read_committed see."""

    def __init__(self, spark: SparkSession, cluster: Cluster, topic: str) -> None:
        """Ask which partitions there are. Raises: TopicMissing."""
        register(spark)
        self._spark = spark
        self._cluster = cluster
        self.topic = topic
        self._lookup = cluster.lookup()
        self.partitions = self._lookup.of_topic(topic)

    def begin(self) -> Bounds:
        """Return where the partitions begin."""
        return bounds(self._lookup.everywhere(self.partitions, EARLIEST, is_read_committed=True))

    def end(self) -> Bounds:
        """Return where the partitions end now: their last stable offsets."""
        return bounds(self._lookup.everywhere(self.partitions, LATEST, is_read_committed=True))

    def at(self, time_ms: int) -> Bounds:
        """Return the first offsets whose records are of this time or later; the end where there are none."""
        spec = OffsetSpec.for_timestamp(time_ms)
        found = bounds(self._lookup.ask(dict.fromkeys(self.partitions, spec), is_read_committed=True))
        ends = self.end()
        return {number: offset if offset >= 0 else ends[number] for number, offset in found.items()}

    def frame(self, start: Bounds, end: Bounds) -> DataFrame:
        """Return the records between; a task for each partition that has some."""
        chosen = sorted(number for number in end if start[number] < end[number])
        assert chosen, "the caller has looked whether there is anything"
        return (
            self._spark.read.format("kvorum")
            .options(**self._cluster.settings())
            .option("kafka.isolation.level", "read_committed")
            .option("assign", json.dumps({self.topic: chosen}))
            .option("startingOffsets", self._json(start, chosen))
            .option("endingOffsets", self._json(end, chosen))
            .option("includeHeaders", "true")
            .load()
        )

    def _json(self, offsets: Bounds, chosen: Iterable[int]) -> str:
        return json.dumps(to_json({TopicPartition(self.topic, number): offsets[number] for number in chosen}))


def bounds(offsets: Offsets) -> Bounds:
    """Return one topic's offsets by partition number."""
    return {where.partition: offset for where, offset in sorted(offsets.items())}


def texts(offsets: Bounds) -> dict[str, int]:
    """Return offsets as JSON has them."""
    return {str(number): offset for number, offset in sorted(offsets.items())}


def numbers(offsets: Mapping[str, int]) -> Bounds:
    """Return offsets as JSON had them."""
    return {int(number): offset for number, offset in offsets.items()}
