"""What measures make of what they see: gaps between acknowledgements, who leads what."""

import contextlib
from collections.abc import Iterator
from typing import Any, cast

import pytest

from bench import tools
from bench.beds import Bed
from bench.measures import latency
from bench.measures.failover import Acknowledged
from bench.measures.many_topics import PARTITIONS, REPLICAS, led
from bench.scale import Scale
from bench.systems import System
from bench.tools import Produced
from kvorum.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic


def acknowledged(*times: float) -> Acknowledged:
    """Return one that got acknowledgements at these times."""
    found = Acknowledged()
    found.times = list(times)
    return found


def topic(
    name: str, *, leader: int = 1, in_sync: int = REPLICAS, partitions: int = PARTITIONS
) -> MetadataResponseTopic:
    """Return a topic as a broker tells it."""
    rows = [
        MetadataResponsePartition(
            partition_index=index,
            leader_id=leader if index else 1,
            isr_nodes=[1, 2, 3][: in_sync if index else REPLICAS],
        )
        for index in range(partitions)
    ]
    return MetadataResponseTopic(name=name, partitions=rows)


def test_the_longest_gap_is_between_two_acknowledgements() -> None:
    assert acknowledged(1.0, 1.1, 3.1, 3.2).longest_gap() == pytest.approx(2.0)


def test_acknowledgements_in_flight_do_not_count_as_recovery() -> None:
    assert acknowledged(1.0, 10.5).resumed_for(killed=10.0, now=20.0) == 0.0
    assert acknowledged(1.0, 10.5, 11.5, 12.0).resumed_for(killed=10.0, now=13.0) == 1.5


def test_topics_are_led_when_each_partition_has_a_leader_and_all_replicas_in_sync() -> None:
    assert led([topic("a"), topic("other", leader=-1)], {"a"}) == {1: {"a": list(range(PARTITIONS))}}
    found = led([topic("a", leader=2), topic("b")], {"a", "b"})
    assert found == {1: {"a": [0], "b": list(range(PARTITIONS))}, 2: {"a": list(range(1, PARTITIONS))}}
    for lacking in (topic("b", leader=-1), topic("b", in_sync=2), topic("b", partitions=9)):
        assert led([topic("a"), lacking], {"a", "b"}) is None
    assert led([topic("a")], {"a", "b"}) is None


def test_both_systems_have_the_same_load_beside_their_records(monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []

    @contextlib.contextmanager
    def producing(bootstrap: str, topic: str, rate: float, *_: object) -> Iterator[None]:
        rates.append(rate)
        yield

    def produce(bootstrap: str, *_: object, **__: object) -> Produced:
        return Produced({"slow": 100.0, "fast": 300.0}[bootstrap], 0.0, 0.0)

    @contextlib.contextmanager
    def made(self: Bed, *_: object) -> Iterator[str]:
        yield "topic"

    class Named:
        def __init__(self, name: str) -> None:
            self.bootstrap = name

    monkeypatch.setattr(tools, "produce", produce)
    monkeypatch.setattr(tools, "producing", producing)
    monkeypatch.setattr(Bed, "topic", made)
    monkeypatch.setattr(latency, "latencies", lambda bed, title: {})
    maxima: dict[str, float] = {}
    beds = [Bed(name, cast(System, Named(name)), 1, Scale(0.001), maxima) for name in ("slow", "fast")]
    found: list[Any] = [latency.loaded(bed, title) for title in (latency.LOADED, latency.OWN) for bed in beds]
    assert rates == [50.0, 50.0, 50.0, 150.0]
    assert [list(each.values()) for each in found] == [[rate] for rate in rates]
