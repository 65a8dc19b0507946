"""A replica whose log is in no directory that works: no empty one takes the place of what others count on."""

import asyncio
from pathlib import Path

import pytest

from kvorum.broker.replica.missing_logs import MissingLogAction, missing_log_action
from kvorum.broker.replica.types import Role
from kvorum.protocol.topic_partition import TopicPartition
from kvorum.protocol.uuids import Uuid
from kvorum.quorum import records
from kvorum.quorum.image.partition import LOST_DIRECTORY, UNASSIGNED_DIRECTORY, PartitionRegistration
from tests.unit.broker.replica.directories_kit import IDS, Broker, run
from tests.unit.broker.replica.manager_kit import produce, settled, topic, until
from tests.unit.broker.replica.replica_kit import KEY, TOPIC_ID

A, B = IDS["a"], IDS["b"]
OTHER = Uuid(b"\x55" * 16)
FRESH = TopicPartition("fresh", 0)
NOBODY: dict[str, tuple[int, ...]] = {"isr": (2,)}


@pytest.mark.parametrize(
    ("named", "all_work", "others", "facts", "fate"),
    [
        # Whatever works here, or is not known: who is new is made, whoever counts on it.
        (UNASSIGNED_DIRECTORY, False, {"isr": (1, 2)}, {"is_new": True}, MissingLogAction.CREATE),
        (A, False, {"isr": (1, 2)}, {"is_new": True}, MissingLogAction.CREATE),
        # Nobody counts on it.
        (UNASSIGNED_DIRECTORY, False, NOBODY, {}, MissingLogAction.CREATE),
        (A, False, NOBODY, {}, MissingLogAction.CREATE),
        (A, True, NOBODY, {}, MissingLogAction.CREATE),
        # Somebody does, and it may lie in what is offline.
        (UNASSIGNED_DIRECTORY, False, {"isr": (1,)}, {}, MissingLogAction.LOST),
        (UNASSIGNED_DIRECTORY, False, {"isr": (), "last_known_elr": (1,)}, {}, MissingLogAction.LOST),
        (A, False, {"isr": (1,)}, {}, MissingLogAction.LOST),
        (A, False, {"isr": (), "elr": (1,)}, {}, MissingLogAction.LOST),
        # All directories are here: it never had one, or (without ELR) leads with what it has.
        (UNASSIGNED_DIRECTORY, True, {"isr": (), "last_known_elr": (1,)}, {}, MissingLogAction.CREATE),
        (A, True, {"isr": (1,)}, {}, MissingLogAction.CREATE),
        # A copy may lack what was written last.
        (A, True, {"isr": (), "last_known_elr": (1,)}, {"has_copy": True}, MissingLogAction.LOST),
        (A, True, NOBODY, {"has_copy": True}, MissingLogAction.CREATE),
        (A, False, NOBODY, {"has_copy": True}, MissingLogAction.LOST),
        # The metadata name what is not here: the controller does not elect it.
        (B, False, {"isr": (1,)}, {}, MissingLogAction.WAIT),
        (B, False, {"isr": (1,)}, {"is_new": True}, MissingLogAction.WAIT),
        (B, True, {"isr": (1,)}, {}, MissingLogAction.CREATE),
        (B, True, {"isr": (), "last_known_elr": (1,)}, {}, MissingLogAction.CREATE),
        (LOST_DIRECTORY, False, NOBODY, {}, MissingLogAction.WAIT),
        (LOST_DIRECTORY, True, NOBODY, {}, MissingLogAction.CREATE),
    ],
)
def test_decision_for_each_missing_log(
    named: Uuid, all_work: bool, others: dict[str, tuple[int, ...]], facts: dict[str, bool], fate: MissingLogAction
) -> None:
    registration = PartitionRegistration(
        **{"replicas": (1, 2), "leader": -1, "leader_epoch": 3, "partition_epoch": 5, "leader_recovery_state": 0},  # type: ignore[arg-type]
        directories=(named, Uuid(b"\x02" * 16)),
        **others,
    )
    known = {"is_new": False, "has_copy": False, **facts}
    assert missing_log_action(registration, 1, online={A}, all_work=all_work, **known) is fate


def change(**fields: object) -> records.PartitionChange:
    return records.PartitionChange(topic_id=TOPIC_ID, partition_id=0, **fields)  # type: ignore[arg-type]


def test_a_replica_that_is_being_added_waits_for_its_directory(tmp_path: Path) -> None:
    """Its log has all; an empty one would be elected, since it is the only one in sync."""

    async def test(broker: Broker) -> None:
        produce(broker.world, b"1")
        added = change(replicas=(1, 2), adding_replicas=(1, 2), directories=(A, B))
        await broker.again(added, without="a")
        assert broker.role() is Role.OFFLINE and broker.lies_in() is None
        assert not (tmp_path / "b" / "orders-0").exists() and broker.reported == []
        broker.mend("a")
        await broker.again()
        assert broker.read() == [b"1"]

    run(test, tmp_path)


@pytest.mark.parametrize("named", [UNASSIGNED_DIRECTORY, B], ids=["nothing named", "named"])
@pytest.mark.parametrize("leader", [1, 2])
def test_a_new_partition_gets_a_log_although_a_directory_is_offline(tmp_path: Path, named: Uuid, leader: int) -> None:
    """It has changed since it was made, all in one delta."""

    async def test(broker: Broker) -> None:
        await broker.again(without="a")
        await broker.world.metadata(
            *topic("fresh", topic_id=OTHER, replicas=(1, 2), leader=leader),
            records.PartitionChange(topic_id=OTHER, partition_id=0, isr=(1,), leader=1),
            records.PartitionChange(topic_id=OTHER, partition_id=0, directories=(named, A)),
        )
        assert broker.lies_in(FRESH) == "b" and broker.role(FRESH) is Role.LEADING
        await until(lambda: named == B or broker.reported == [B])

    run(test, tmp_path)


def test_a_new_log_is_where_the_metadata_say(tmp_path: Path) -> None:
    async def test(broker: Broker) -> None:
        for index, (name, directory) in enumerate([("b", B), ("a", A), ("a", A)]):
            key, topic_id = TopicPartition(f"new-{index}", 0), Uuid(bytes([0x70 + index]) * 16)
            made = records.Partition(
                topic_id=topic_id, partition_id=0, replicas=(1,), isr=(1,), leader=1, directories=(directory,)
            )
            await broker.world.metadata(records.Topic(name=key.topic, topic_id=topic_id), made)
            assert broker.lies_in(key) == name

    run(test, tmp_path)


def test_a_replica_whose_log_may_be_offline_is_not_elected(tmp_path: Path) -> None:
    """The controller was not told yet in which directory it lies: told now that it is lost, before all else."""

    async def test(broker: Broker) -> None:
        produce(broker.world, b"1")
        unknown = change(directories=(UNASSIGNED_DIRECTORY,))
        broker.held = []
        await broker.again(unknown, without="a")
        waiting = asyncio.ensure_future(broker.world.manager.wait_lost_reported())
        await until(lambda: broker.reported == [LOST_DIRECTORY])
        await settled()
        assert not waiting.done() and broker.role() is Role.OFFLINE
        await broker.commit_held()
        await asyncio.wait_for(waiting, 30)
        assert broker.role() is Role.OFFLINE and broker.lies_in() is None
        broker.mend("a")
        await broker.again()
        assert broker.read() == [b"1"]
        await until(lambda: broker.named == "a")

    run(test, tmp_path)


def test_a_copy_takes_the_place_of_a_log_that_others_count_on_once_that_is_known_to_be_lost(tmp_path: Path) -> None:
    """Its directory was taken out of log.dirs while the metadata named the copy's already."""

    async def test(broker: Broker) -> None:
        produce(broker.world, b"1")
        broker.held = []
        await broker.alter("b")
        await until(lambda: broker.held)
        await broker.commit_held()
        broker.world.manager.moves.forget([KEY])
        broker.settings["log.dirs"] = f"{tmp_path}/b"
        waits_for = change(isr=(), leader=-1, elr=(), last_known_elr=(1,))
        broker.reported.clear()
        await broker.again(waits_for)
        assert broker.role() is Role.OFFLINE and broker.lies_in() is None
        await until(lambda: broker.reported == [LOST_DIRECTORY, B])
        await broker.world.manager.wait_lost_reported()
        assert broker.lies_in() == "b" and broker.folders() == ["a/orders-0", "b/orders-0"]
        await until(lambda: broker.named == "b")
        await broker.world.metadata(change(isr=(1,), leader=1))
        assert broker.read() == [b"1"]

    run(test, tmp_path)


def test_no_request_waits_without_a_suspected_broker(tmp_path: Path) -> None:
    async def test(broker: Broker) -> None:
        await broker.again()
        await asyncio.wait_for(broker.world.manager.wait_lost_reported(), 30)
        await broker.again(without="a")
        await asyncio.wait_for(broker.world.manager.wait_lost_reported(), 30)

    run(test, tmp_path)
