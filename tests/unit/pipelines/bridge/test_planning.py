"""Micro-batches are planned right, whatever Spark asks and in whatever order. A stand-in answers for topics."""

from collections.abc import Iterable
from typing import Any, cast

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from kvorum.pipelines.bridge import options
from kvorum.pipelines.bridge.lookup import Lookup
from kvorum.pipelines.bridge.offsets import BEGUN_AT, EARLIEST, OffsetRange, Offsets, OffsetsLost, TopicPartition
from kvorum.pipelines.bridge.options import Position
from kvorum.pipelines.bridge.source import StreamReader


class Topics:
    """Answers in place of a cluster."""

    def __init__(self, **ends: int) -> None:
        self.ends: Offsets = {TopicPartition("t", int(name[1:])): end for name, end in ends.items()}

    def partitions(self, topics: object, *, must_exist: bool = True) -> list[TopicPartition]:
        return sorted(self.ends)

    def everywhere(self, partitions: Iterable[TopicPartition], what: int, **_: object) -> Offsets:
        return {where: 0 if what == EARLIEST else self.ends[where] for where in partitions}

    def resolve(self, position: Position, partitions: list[TopicPartition], read: object) -> Offsets:
        assert isinstance(position.value, int)
        return self.everywhere(partitions, position.value)


def reader(topics: Topics, **given: str) -> StreamReader:
    base = {"kafka.bootstrap.servers": "a:1", "subscribe": "t", "startingOffsets": "earliest"}
    made = StreamReader(options.reading(base | given, is_streaming=True))
    made.lookup = cast(Lookup, topics)  # the part of it that planning uses
    return made


def ranges(made: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[str]:
    return [repr(piece) for piece in made.partitions(start, end) if isinstance(piece, OffsetRange)]


def test_a_query_begins_in_one_place_however_often_it_is_asked() -> None:
    """Spark asks for the initial offset again when it plans the first micro-batch, and after a crash in it."""
    topics = Topics(p0=10)
    made = reader(topics, startingOffsets="latest")
    initial = made.initialOffset()
    topics.ends[TopicPartition("t", 0)] = 15
    end = made.latestOffset(initial, ReadAllAvailable())
    assert made.initialOffset() == initial == {"t": {"0": 10}}
    assert end == {"t": {"0": 15}, BEGUN_AT: {"t": {"0": 10}}}
    assert ranges(made, initial, end) == ["t-0[10,15)"]
    again = reader(topics, startingOffsets="latest")
    assert ranges(again, again.initialOffset(), end) == ["t-0[10,15)"], "a restart replays the same records"
    assert made.latestOffset(end, ReadAllAvailable()) is end, "nothing new is no new micro-batch"
    topics.ends[TopicPartition("t", 0)] = 16
    following = made.latestOffset(end, ReadAllAvailable())
    assert following == {"t": {"0": 16}} and ranges(made, end, following) == ["t-0[15,16)"]


def test_limits() -> None:
    topics = Topics(p0=100, p1=100)
    made = reader(topics, maxOffsetsPerTrigger="10")
    assert made.getDefaultReadLimit() == ReadMaxRows(10)
    end = made.latestOffset(made.initialOffset(), ReadMaxRows(10))
    assert end["t"] == {"0": 5, "1": 5}
    assert made.latestOffset(end, ReadAllAvailable())["t"] == {"0": 100, "1": 100}


def test_what_is_available_now_stays_what_it_was() -> None:
    topics = Topics(p0=5)
    made = reader(topics)
    made.prepareForTriggerAvailableNow()
    topics.ends[TopicPartition("t", 0)] = 50
    end = made.latestOffset(made.initialOffset(), ReadAllAvailable())
    assert end["t"] == {"0": 5} and made.latestOffset(end, ReadAllAvailable()) is end


def test_new_partitions_are_read_and_lost_ones_told() -> None:
    topics = Topics(p0=5, p1=7)
    made = reader(topics)
    assert ranges(made, {"t": {"0": 5}}, made.latestOffset({"t": {"0": 5}}, ReadAllAvailable())) == ["t-1[0,7)"]
    del topics.ends[TopicPartition("t", 1)]
    with pytest.raises(OffsetsLost, match="t-1 not there any more"):
        made.latestOffset({"t": {"0": 5, "1": 7}}, ReadAllAvailable())
    tolerant = reader(topics, failOnDataLoss="false")
    assert tolerant.latestOffset({"t": {"0": 9, "1": 7}}, ReadAllAvailable()) == {"t": {"0": 5}}
