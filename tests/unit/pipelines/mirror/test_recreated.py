"""A topic of the target that is deleted and created again: its marks begin anew, and no group is moved by old ones."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest

from kvorum.pipelines.bridge.offsets import TopicPartition
from kvorum.pipelines.mirror import ledger
from kvorum.pipelines.mirror.ledger import Ledger
from kvorum.pipelines.mirror.run import Mirror
from kvorum.pipelines.mirror.spec import MirrorSpec
from kvorum.pipelines.mirror.translation import Translator

PLACE = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)
SPEC = MirrorSpec.model_validate(
    {
        "name": "x",
        "source": {"alias": "a", "bootstrap": "a:9092"},
        "target": {"alias": "b", "bootstrap": "b:9092"},
        "topics": ["orders"],
        "checkpoint": "/nowhere",
        "policy": "identity",
        "provenance": False,
    }
)


class Control(NamedTuple):
    """A record of the map topic."""

    topic: str
    key: bytes
    value: bytes | None


class Fixture:
    """A mirror's ledger over a map topic in memory, the mirror, and where the target's partitions end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.records: list[Control] = []
        self.ends = {PLACE: 0, OTHER: 0}
        producer = SimpleNamespace(
            init_transactions=lambda timeout: None,
            begin_transaction=lambda: None,
            produce=lambda topic, value, key: self.records.append(Control(topic, key, value)),
            commit_transaction=lambda timeout: None,
        )
        monkeypatch.setattr(ledger, "Producer", lambda settings: producer)
        monkeypatch.setattr(ledger, "read_topic", lambda settings, topic: map(message, list(self.records)))
        self.logs: Any = SimpleNamespace(bounds=lambda place: (0, self.ends[place]))
        self.ledger = Ledger(SPEC)
        self.mirror = Mirror.__new__(Mirror)
        self.mirror._spec, self.mirror._ledger = SPEC, self.ledger
        lookup: Any = SimpleNamespace(everywhere=self.everywhere)
        self.mirror._target = lookup

    def everywhere(self, wanted: Iterable[TopicPartition], what: int, *, is_read_committed: bool) -> Any:
        return {where: self.ends[TopicPartition(*where)] for where in wanted}

    def batch(self, place: TopicPartition, start: int, end: int, written: int) -> None:
        """Do what Mirror._write does for a partition, without Spark."""
        if self.ledger.map.last(place) is not None:
            self.mirror._restart_recreated([place])
        if self.ledger.map.last(place) is None:
            self.mirror._mark({place: start})
        self.ends[place] += written
        self.mirror._mark({place: end})


def message(record: Control) -> Any:
    return SimpleNamespace(key=lambda: record.key, value=lambda: record.value)


@pytest.fixture
def fixture(monkeypatch: pytest.MonkeyPatch) -> Fixture:
    return Fixture(monkeypatch)


def test_no_group_is_moved_by_marks_of_the_former_topic(fixture: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = Translator(SPEC, fixture.ledger.map, fixture.logs)
    monkeypatch.setattr(translator, "_inside", lambda place, mark, following, offsets: {})
    fixture.batch(PLACE, 0, 1000, 1000)
    fixture.batch(OTHER, 0, 70, 70)
    assert translator.translate(PLACE, [1000, 1200]) == {1000: 1000, 1200: 1000}

    fixture.ends[PLACE] = 0  # deleted and created again
    assert translator.translate(PLACE, [1000, 1200]) == {}
    fixture.batch(PLACE, 1000, 3000, 2000)
    assert translator.translate(PLACE, [900, 1000, 1200, 3000]) == {900: 0, 1000: 0, 1200: 0, 3000: 2000}
    assert translator.translate(OTHER, [70]) == {70: 70}


def test_the_map_topic_says_so_to_the_next_run(fixture: Fixture) -> None:
    for number in range(40):
        fixture.batch(PLACE, 10 * number, 10 * number + 10, 10)
    fixture.ends[PLACE] = 5
    fixture.batch(PLACE, 400, 410, 10)
    found = [(mark.source, mark.target) for mark in Ledger(SPEC).map.marks(PLACE)]
    assert found == [(400, 5), (410, 15)]


def test_a_topic_that_cannot_be_reached_holds_its_groups_only(fixture: Fixture) -> None:
    def fail(place: TopicPartition) -> tuple[int, int]:
        if place == PLACE:
            raise TimeoutError("no answer")
        return 0, fixture.ends[place]

    fixture.batch(PLACE, 0, 10, 10)
    fixture.batch(OTHER, 0, 5, 5)
    translator = Translator(SPEC, fixture.ledger.map, cast(Any, SimpleNamespace(bounds=fail)))
    assert translator.translate(PLACE, [10]) == {} and translator.translate(OTHER, [5]) == {5: 5}
