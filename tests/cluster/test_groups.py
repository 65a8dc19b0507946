"""Classic groups of unmodified clients: members come, leave and die, of one make and mixed; the coordinator dies.

All tests share one cluster of three nodes; the last ones kill a node and start it again.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient

from kvorum.cluster.local.local import LocalCluster
from tests.cluster.clients import Sender, create_topic, eventually
from tests.cluster.conftest import clusters_in
from tests.cluster.group_member import SHORT_SESSION_MS
from tests.cluster.members import Members, members_of
from tests.cluster.nodes import kill_all, name_of, restart

PARTITIONS = 6
RECORDS = 120
CLIENTS = ("confluent", "kafka-python", "aiokafka")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with clusters_in(tmp_path_factory.mktemp("groups")) as start:
        yield start("three-nodes.yaml", "group.initial.rebalance.delay.ms=0")


def describe(bootstrap: str, group: str):
    """Return what the group's coordinator tells of it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    return admin.describe_consumer_groups([group], request_timeout=30)[group].result(60)


def send(bootstrap: str, topic: str, first: int = 0) -> set[str]:
    """Send RECORDS records to all partitions in turn; return their values."""
    sender = Sender(bootstrap, topic)
    sender.send(RECORDS, PARTITIONS, first)
    sender.flush_acked(RECORDS)
    return {value.decode() for value in sender.sent.acked}


def wait_read(members: Members, values: set[str]) -> None:
    """Wait until all of these have been read by somebody."""
    eventually(lambda: values <= members.values(), lambda: f"unread: {sorted(values - members.values())[:5]}")


@pytest.mark.parametrize("client", CLIENTS)
def test_partitions_are_reassigned_when_members_join_leave_and_die(
    cluster: LocalCluster, client: str, tmp_path: Path
) -> None:
    bootstrap, topic = cluster.plan.bootstrap, f"come-{client}"
    create_topic(bootstrap, topic, PARTITIONS, 3)
    with members_of(tmp_path, bootstrap, f"group-{client}", topic, PARTITIONS) as members:
        two = [members.start(client) for _ in range(2)]
        members.wait_shared(two)
        wait_read(members, send(bootstrap, topic))
        mortal = members.start(client, session_ms=SHORT_SESSION_MS)
        five = [*two, mortal, *(members.start(client) for _ in range(2))]
        members.wait_shared(five)
        leaving, staying = five[:2], five[2:]
        members.leave(leaving, staying)
        mortal.kill()
        members.wait_shared(staying[1:])
        wait_read(members, send(bootstrap, topic, first=RECORDS))
        members.leave(staying[1:])
    found = describe(bootstrap, f"group-{client}")
    assert found.state is ConsumerGroupState.EMPTY and not found.members


def test_clients_of_three_makes_share_one_group(cluster: LocalCluster, tmp_path: Path) -> None:
    bootstrap = cluster.plan.bootstrap
    create_topic(bootstrap, "mixed", PARTITIONS, 3)
    with members_of(tmp_path, bootstrap, "mixed-group", "mixed", PARTITIONS) as members:
        all_three = [members.start(client) for client in CLIENTS]
        members.wait_shared(all_three)
        wait_read(members, send(bootstrap, "mixed"))
        found = eventually(lambda: stable(bootstrap, "mixed-group"), "a stable group")
        assert found.partition_assignor == "range"
        reported = sorted(sorted(each.partition for each in row.assignment.topic_partitions) for row in found.members)
        assert reported == sorted(each.assigned for each in all_three)
        # Whoever leads makes the assignment for all: each make has its turn.
        for _ in range(2):
            members.leave([all_three.pop(0)], all_three)
        wait_read(members, send(bootstrap, "mixed", first=RECORDS))


def test_a_group_continues_when_its_coordinator_is_killed_and_keeps_its_offsets(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """Every commit that was acknowledged counts: nobody reads below the highest of its partition after the kill."""
    bootstrap = cluster.plan.bootstrap
    create_topic(bootstrap, "failover", PARTITIONS, 3)
    with members_of(tmp_path, bootstrap, "failover-group", "failover", PARTITIONS) as members:
        three = [members.start(client) for client in CLIENTS]
        members.wait_shared(three)
        wait_read(members, send(bootstrap, "failover"))
        coordinator = describe(bootstrap, "failover-group").coordinator.id
        kill_all(cluster, name_of(cluster, coordinator))
        wait_read(members, send(bootstrap, "failover", first=RECORDS))
        found = eventually(lambda: moved_from(bootstrap, coordinator), "another coordinator")
        assert found.state not in (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)
        members.wait_shared(three)
        restart(cluster, name_of(cluster, coordinator))
        wait_read(members, send(bootstrap, "failover", first=2 * RECORDS))
        eventually(lambda: all_committed(members), lambda: f"commits up to the end: {highest(members)}")
        members.leave(three)
        for each in members.all:
            for partition, offsets in each.committed.items():
                assert offsets == sorted(offsets), f"{each.name} committed backwards in {partition}"
    # A newcomer begins where they ended: it has nothing to read but what comes now.
    again = tmp_path / "again"
    again.mkdir()
    with members_of(again, bootstrap, "failover-group", "failover", PARTITIONS) as members:
        only = members.start("confluent")
        members.wait_shared([only])
        values = send(bootstrap, "failover", first=3 * RECORDS)
        wait_read(members, values)
        assert members.values() == values


def stable(bootstrap: str, group: str):
    """Return the group once it is between two rebalances, None while it is in one."""
    found = describe(bootstrap, group)
    return found if found.state is ConsumerGroupState.STABLE else None


def moved_from(bootstrap: str, node_id: int):
    """Return the group as another node than this tells of it, None until one does."""
    found = describe(bootstrap, "failover-group")
    return found if found.coordinator.id != node_id else None


def highest(members: Members) -> dict[int, int]:
    """Return the highest offset committed of each partition."""
    found: dict[int, int] = {}
    for each in members.all:
        for partition, offsets in list(each.committed.items()):
            found[partition] = max(found.get(partition, 0), *offsets)
    return found


def all_committed(members: Members) -> bool:
    """Return whether all that was sent is committed."""
    return highest(members) == dict.fromkeys(range(PARTITIONS), 3 * RECORDS // PARTITIONS)
