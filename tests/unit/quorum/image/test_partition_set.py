"""A set of partitions against Python's own, whatever enters and leaves it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvorum.protocol.uuids import Uuid
from kvorum.quorum.image.partition_set import FEW_COUNT, PartitionSet, TopicIdPartition
from kvorum.quorum.steps import finish

TOPICS = [Uuid(bytes(15) + bytes([number])) for number in (3, 1, 2)]
KEYS = st.builds(TopicIdPartition, st.sampled_from(TOPICS), st.sampled_from([0, 1, 7, 8, 9, 63, 64, 65, 1000]))


def by_topic(keys: set[TopicIdPartition]) -> dict[Uuid, list[int]]:
    found: dict[Uuid, list[int]] = {}
    for topic_id, partition_id in keys:
        found.setdefault(topic_id, []).append(partition_id)
    return found


@given(changes=st.lists(st.sets(KEYS), max_size=8))
def test_it_contains_added_and_not_removed_partitions(changes: list[set[TopicIdPartition]]) -> None:
    partitions, model = PartitionSet(), set[TopicIdPartition]()
    for keys in changes:
        before, content = partitions, list(partitions)
        partitions = finish(partitions.changed(by_topic(keys & model), by_topic(keys - model)))
        model ^= keys
        assert list(before) == content, "an older version stays as it was"
        assert len(partitions) == len(model) and bool(partitions) == bool(model)
        assert set(partitions) == model
        assert list(finish(partitions.in_order())) == sorted(model)
        assert set(partitions.topics) == {topic_id for topic_id, _ in model}, "no topic without any"


@pytest.mark.parametrize("count", [FEW_COUNT - 1, FEW_COUNT, FEW_COUNT + 1, 1_000])
def test_many_of_a_topic_enter_and_leave_as_few_do(count: int) -> None:
    (topic, *_) = TOPICS
    ids = [number * 7 for number in range(count)]
    all_of_them = finish(PartitionSet().changed({}, {topic: ids[::-1]}))
    assert [key.partition_id for key in finish(all_of_them.in_order())] == ids
    assert not finish(all_of_them.changed({topic: ids}, {}))


@pytest.mark.parametrize(
    ("removed", "added"),
    [([5], []), ([0, 0], []), ([], [0]), ([], [4, 4]), ([0], [0])],
    ids=["not there", "leaves twice", "there already", "enters twice", "leaves and enters"],
)
def test_invalid_removals_and_additions_are_programming_errors(removed: list[int], added: list[int]) -> None:
    (topic, *_) = TOPICS
    some = finish(PartitionSet().changed({}, {topic: [0, 9]}))
    with pytest.raises(AssertionError):
        finish(some.changed({topic: removed}, {topic: added}))


def test_many_topics_are_in_order_too() -> None:
    topics = [Uuid((number * 7919 % 3001).to_bytes(16, "big")) for number in range(1, 3001)]
    many = finish(PartitionSet().changed({}, {topic: [1, 0] for topic in topics}))
    assert list(finish(many.in_order())) == [(topic, number) for topic in sorted(topics) for number in (0, 1)]
