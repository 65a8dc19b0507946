"""The placer: what it must do for any cluster, and how evenly it does it."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.quorum.controller.placement import ReplicaPlacer, UsableBroker, usable_brokers
from tests.unit.quorum.controller.controller_kit import World, log_dir


def brokers(*racks: str | None, fenced: tuple[int, ...] = ()) -> list[UsableBroker]:
    """Return brokers 0, 1, ... in these racks."""
    return [UsableBroker(broker_id=index, rack=rack, fenced=index in fenced) for index, rack in enumerate(racks)]


@given(
    racks=st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=9),
    fenced=st.sets(st.integers(0, 8)),
    factor=st.integers(1, 9),
    count=st.integers(1, 40),
    seed=st.integers(0, 2**32),
)
def test_replicas_differ_and_an_unfenced_broker_leads(
    racks: list[str | None], fenced: set[int], factor: int, count: int, seed: int
) -> None:
    cluster = brokers(*racks, fenced=tuple(fenced))
    unfenced = {broker.broker_id for broker in cluster if not broker.fenced}
    placer = ReplicaPlacer(cluster, Random(seed))
    if not unfenced or factor > len(cluster):
        with pytest.raises(KafkaError) as caught:
            placer.place(factor)
        assert caught.value.code == ErrorCode.INVALID_REPLICATION_FACTOR
        return
    rack_sizes = Counter(racks)
    for _ in range(count):
        replicas = placer.place(factor)
        assert len(replicas) == len(set(replicas)) == factor and replicas[0] in unfenced
        used = Counter(racks[replica] for replica in replicas)
        assert len(used) == min(factor, len(rack_sizes)) or any(
            all(broker.fenced for broker in cluster if broker.rack == rack) for rack in rack_sizes
        ), "as many racks as there can be"


@pytest.mark.parametrize("seed", range(5))
def test_replicas_and_leaderships_are_spread_evenly(seed: int) -> None:
    placer = ReplicaPlacer(brokers("a", "a", "b", "b", "c", "c"), Random(seed))
    placed = [placer.place(3) for _ in range(600)]
    assert all({replica // 2 for replica in replicas} == {0, 1, 2} for replicas in placed)
    leaders, replicas = Counter(row[0] for row in placed), Counter(replica for row in placed for replica in row)
    assert all(80 <= leaders[broker_id] <= 120 for broker_id in range(6)), leaders
    assert all(270 <= replicas[broker_id] <= 330 for broker_id in range(6)), replicas
    assert len(set(placed)) > 12, "not the same few sets again and again"


@pytest.mark.parametrize("seed", range(5))
def test_without_racks_leaderships_go_round(seed: int) -> None:
    placer = ReplicaPlacer(brokers(*[None] * 5), Random(seed))
    placed = [placer.place(3) for _ in range(5)]
    assert sorted(replicas[0] for replicas in placed) == [0, 1, 2, 3, 4]


def test_fenced_brokers_come_after_the_unfenced_of_their_rack() -> None:
    placer = ReplicaPlacer(brokers("a", "a", "a", "b", "b", fenced=(1, 4)), Random(3))
    for _ in range(20):
        replicas = placer.place(2)  # one of each rack
        assert 1 not in replicas and 4 not in replicas
        assert 1 in placer.place(5), "all of them"


def test_one_unfenced_broker_leads_everything() -> None:
    placer = ReplicaPlacer(brokers(None, None, None, fenced=(0, 2)), Random(1))
    placed = [placer.place(2) for _ in range(10)]
    assert {replicas[0] for replicas in placed} == {1}
    assert {replicas[1] for replicas in placed} == {0, 2}


@pytest.mark.parametrize("factor", [0, -1, 4])
def test_a_factor_that_cannot_be_is_refused(factor: int) -> None:
    with pytest.raises(KafkaError) as caught:
        ReplicaPlacer(brokers(None, None, None), Random(1)).place(factor)
    assert caught.value.code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_broker_that_shuts_down_gets_nothing() -> None:
    world = World()
    world.start(1, 2, 3)
    world.topic("a", (1, 2))
    world.beat(1, want_shut_down=True)
    world.fence(3)
    assert [(broker.broker_id, broker.fenced) for broker in usable_brokers(world.image.cluster)] == [
        (2, False),
        (3, True),
    ]


def test_a_broker_whose_directories_are_all_cordoned_gets_nothing() -> None:
    """KIP-1066. One that has one left does, and so does one that has not said yet."""
    world = World()
    for broker_id in (1, 2, 3):
        world.register(broker_id, log_dirs=[log_dir(broker_id), log_dir(broker_id + 10)])
    world.beat(1, cordoned_log_dirs=[log_dir(1), log_dir(11)])
    world.beat(2, cordoned_log_dirs=[log_dir(12)])
    assert [broker.broker_id for broker in usable_brokers(world.image.cluster)] == [2, 3]
    with pytest.raises(KafkaError, match="or some brokers have all their log directories cordoned"):
        ReplicaPlacer(usable_brokers(world.image.cluster), Random(1)).place(3)
    world.beat(1, cordoned_log_dirs=[])
    assert [broker.broker_id for broker in usable_brokers(world.image.cluster)] == [1, 2, 3]
