"""Acceptance 5: all of an ISR dies, with unclean leader election off and on, without and with eligible leader replicas.

With them (KIP-966, the default) a dead ISR is empty, its last member eligible and the last known leader; without them
it stays in the ISR. With min.insync.replicas=1 who may lead is the same; a lost disk, or a larger minimum, tells them
apart.
"""

import asyncio
import json
import os
import random
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import pytest
from click.testing import CliRunner
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from kvorum.cli.main import main
from kvorum.client.wire.cluster_client import ClusterClient
from kvorum.cluster.local.local import LocalCluster
from kvorum.network.addresses import parse_bootstrap
from kvorum.protocol.errors import ErrorCode
from kvorum.runtime.metric_definitions import OF_A_NODE
from tests.cluster.clients import (
    Sender,
    assert_all_there_once_in_order,
    create_topic,
    eventually,
    isr_of,
    leader_of,
    read_all,
)
from tests.cluster.conftest import Start
from tests.cluster.nodes import addresses, name_of, restart, wait_for_equal_logs
from tests.cluster.test_observability import names_in, scrape
from tests.cluster.topics import produce_code, topics_at

T = TypeVar("T")

SETTINGS = ("replica.lag.time.max.ms=2000", "unclean.leader.election.interval.ms=1000")
BOTH = 100
"""Records that both replicas have."""
ALONE = 50
"""Records that only the last of the ISR has."""

with_and_without_elr = pytest.mark.parametrize("elr", [1, 0], ids=["with ELR", "without ELR"])


def start_three(start_cluster: Start, elr: int) -> LocalCluster:
    """Start three nodes, each broker and controller; 1 is what a new cluster has by default."""
    level = () if elr else ("kvorum.eligible.leader.replicas.version=0",)
    return start_cluster("three-nodes.yaml", *SETTINGS, *level)


def lose_the_isr(cluster: LocalCluster, topic: str, elr: int) -> tuple[Sender, int, int]:
    """Have the ISR shrink to the leader, which then dies, while the follower lives again without the last records.

    Returns who sent the records, the dead leader and the living follower.
    """
    bootstrap = cluster.plan.bootstrap
    create_topic(bootstrap, topic, 1, 2, min_insync_replicas="1")
    leader = leader_of(bootstrap, topic, 0)
    (follower,) = (each for each in isr_of(bootstrap, topic, 0) if each != leader)
    sender = Sender(bootstrap, topic)
    sender.send(BOTH)
    sender.flush_acked(BOTH)
    cluster.kill(name_of(cluster, follower))
    eventually(lambda: isr_of(bootstrap, topic, 0) == [leader], "the ISR without the dead follower")
    sender.send(ALONE)
    sender.flush_acked(BOTH + ALONE)
    cluster.kill(name_of(cluster, leader))
    restart(cluster, name_of(cluster, follower))
    assert_offline_and_refused(cluster, topic, leader, elr)
    return sender, leader, follower


def assert_offline_and_refused(cluster: LocalCluster, topic: str, leader: int, elr: int) -> None:
    """Every living broker, replica or not, knows of no leader and takes no record."""
    living = {name: at for name, at in addresses(cluster).items() if cluster.processes(name)}
    assert len(living) == 2
    for name, address in living.items():

        def is_offline(address: str = address) -> bool:
            (row,) = topics_at(address, topic)[topic].partitions
            return row.leader_id == -1

        eventually(is_offline, f"a partition without a leader at {name}")
        (row,) = topics_at(address, topic)[topic].partitions
        assert row.error_code == ErrorCode.LEADER_NOT_AVAILABLE, name
        assert row.isr_nodes == ([] if elr else [leader]), name
        assert row.offline_replicas == [leader], name
        expected = (-1, [], [leader], [leader]) if elr else (-1, [leader], [], [])
        assert described(address, topic) == expected, name
        for acks in (1, -1):
            assert produce_code(address, topic, acks) == ErrorCode.NOT_LEADER_OR_FOLLOWER, (name, acks)


def described(address: str, topic: str) -> tuple[int, list[int], list[int] | None, list[int] | None]:
    """Return leader, ISR, ELR and last known ELR of partition 0, as `kvorum topics describe` prints them."""
    done = CliRunner().invoke(main, ["topics", "describe", topic, "-b", address, "-o", "json"])
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.output)["partitions"]
    return row["leader"], row["isr"], row["elr"], row["last_known_elr"]


def requested(address: str, question: Callable[[ClusterClient], Awaitable[T]]) -> T:
    """Return what the admin client is answered there."""

    async def ask() -> T:
        client = ClusterClient(parse_bootstrap(address), client_id="test", chance=random.Random(1))
        try:
            return await question(client)
        finally:
            await client.close()

    return asyncio.run(ask())


def is_fenced(address: str, broker_id: int) -> bool:
    """Return whether a broker is fenced, as another one knows."""
    brokers = requested(address, lambda client: client.describe_cluster()).brokers
    return next(each.is_fenced for each in brokers if each.broker_id == broker_id)


def wipe(cluster: LocalCluster, name: str) -> None:
    """Take all that a dead node stored; it is formatted again."""
    shutil.rmtree(cluster.node(name).data)
    cluster.format_lost(name)


def numbered(values: Iterable[int]) -> list[bytes]:
    """Return what a Sender sends under these numbers."""
    return [b"%08d" % value for value in values]


def values_of(bootstrap: str, topic: str) -> list[bytes]:
    """Return all that partition 0 holds."""
    return [message.value() for message in read_all(bootstrap, topic, 1)[0]]


@with_and_without_elr
@pytest.mark.parametrize("how", ["topic config", "explicit request"])
def test_with_unclean_election_a_live_replica_leads_and_only_records_above_its_end_are_lost(
    start_cluster: Start, how: str, elr: int
) -> None:
    cluster = start_three(start_cluster, elr)
    bootstrap = cluster.plan.bootstrap
    _, leader, follower = lose_the_isr(cluster, "risky", elr)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    if how == "topic config":
        entry = ConfigEntry("unclean.leader.election.enable", "true", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, "risky", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(30)
    else:
        admin.elect_leaders(ElectionType.UNCLEAN, [TopicPartition("risky", 0)]).result(30)
    eventually(lambda: leader_of(bootstrap, "risky", 0) == follower, "the out-of-sync replica leading")
    eventually(lambda: described(bootstrap, "risky") == (follower, [follower], [], []), "nobody eligible any more")
    after = Sender(bootstrap, "risky", **{"enable.idempotence": False, "acks": "all"})
    after.send(20, first=1000)
    after.flush_acked(20)
    restart(cluster, name_of(cluster, leader))
    eventually(lambda: isr_of(bootstrap, "risky", 0) == sorted([leader, follower]), "both in the ISR")
    wait_for_equal_logs(cluster, "risky-0", name_of(cluster, leader), name_of(cluster, follower))
    messages = read_all(bootstrap, "risky", 1)[0]
    assert [message.value() for message in messages] == numbered(range(BOTH)) + numbered(range(1000, 1020))
    assert [message.offset() for message in messages] == list(range(BOTH + 20))


@with_and_without_elr
def test_without_unclean_election_a_restarted_isr_has_no_loss(start_cluster: Start, elr: int) -> None:
    """With ELR it is the last known leader that is elected again, though it did not shut down cleanly."""
    cluster = start_three(start_cluster, elr)
    bootstrap = cluster.plan.bootstrap
    sender, leader, follower = lose_the_isr(cluster, "safe", elr)
    restart(cluster, name_of(cluster, leader))
    eventually(lambda: isr_of(bootstrap, "safe", 0) == sorted([leader, follower]), "both replicas in sync")
    wait_for_equal_logs(cluster, "safe-0", name_of(cluster, leader), name_of(cluster, follower))
    found = read_all(bootstrap, "safe", 1)
    assert [message.value() for message in found[0]] == numbered(range(BOTH + ALONE))
    assert_all_there_once_in_order(found, sender.sent.acked)


def test_with_elr_a_wiped_last_member_is_not_elected_and_the_others_records_are_kept(start_cluster: Start) -> None:
    """The last known leader has nothing: nobody leads until an operator says who, and then nothing more is lost."""
    cluster = start_three(start_cluster, 1)
    bootstrap = cluster.plan.bootstrap
    _, leader, follower = lose_the_isr(cluster, "wiped", 1)
    wipe(cluster, name_of(cluster, leader))
    restart(cluster, name_of(cluster, leader))
    reported = addresses(cluster)[name_of(cluster, follower)]
    eventually(lambda: not is_fenced(reported, leader), "both replicas alive")
    assert described(reported, "wiped") == (-1, [], [], []), "alive, and nobody may lead"
    ordered = AdminClient({"bootstrap.servers": bootstrap})
    # The first living replica of the assignment leads: taken away, it is the one that has something.
    cluster.kill(name_of(cluster, leader))
    eventually(lambda: is_fenced(reported, leader), "the wiped broker fenced")
    answers = ordered.elect_leaders(ElectionType.UNCLEAN, [TopicPartition("wiped", 0)]).result(30)
    assert list(answers.values()) == [None]
    eventually(lambda: leader_of(bootstrap, "wiped", 0) == follower, lambda: f"{described(bootstrap, 'wiped')}")
    restart(cluster, name_of(cluster, leader))
    eventually(lambda: isr_of(bootstrap, "wiped", 0) == sorted([leader, follower]), "both in the ISR")
    wait_for_equal_logs(cluster, "wiped-0", name_of(cluster, leader), name_of(cluster, follower))
    assert values_of(bootstrap, "wiped") == numbered(range(BOTH))


def test_without_elr_a_wiped_last_member_is_elected_empty_and_the_others_are_cut_to_it(start_cluster: Start) -> None:
    """Kafka's known weakness, which ELR is for: here it is shown, so that it is known where it holds."""
    cluster = start_three(start_cluster, 0)
    bootstrap = cluster.plan.bootstrap
    _, leader, follower = lose_the_isr(cluster, "wiped", 0)
    wipe(cluster, name_of(cluster, leader))
    restart(cluster, name_of(cluster, leader))
    eventually(lambda: leader_of(bootstrap, "wiped", 0) == leader, "the wiped broker leading")
    eventually(lambda: isr_of(bootstrap, "wiped", 0) == sorted([leader, follower]), "both in the ISR")
    assert values_of(bootstrap, "wiped") == []


@with_and_without_elr
def test_below_min_isr_a_cleanly_stopped_replica_leads_with_elr_and_waits_without(
    start_cluster: Start, elr: int
) -> None:
    """RF 3, min.insync.replicas 2: one dies, one shuts down cleanly, the last dies. The second comes back first."""
    level = () if elr else ("kvorum.eligible.leader.replicas.version=0",)
    cluster = start_cluster("three-controllers-five-brokers.yaml", *SETTINGS, *level)
    bootstrap = cluster.plan.bootstrap
    create_topic(bootstrap, "t", 1, 3, min_insync_replicas="2")
    for alone in ("broker-1", "controller-1"):
        reported = names_in(scrape(cluster.plan.node(alone).properties["metrics.listener"]))
        assert OF_A_NODE.keys() - reported == set(), "a node that is one of both has nobody else to tell it"
    last = leader_of(bootstrap, "t", 0)
    first, second = (each for each in isr_of(bootstrap, "t", 0) if each != last)
    sender = Sender(bootstrap, "t")
    sender.send(BOTH)
    sender.flush_acked(BOTH)
    cluster.kill(name_of(cluster, first))
    eventually(lambda: isr_of(bootstrap, "t", 0) == sorted([second, last]), "the ISR without who died")
    sender.send(ALONE)
    sender.flush_acked(BOTH + ALONE)
    cluster.stop(name_of(cluster, second))
    eventually(
        lambda: described(bootstrap, "t") == (last, [last], [second] if elr else [], []), "who shut down eligible"
    )
    cluster.kill(name_of(cluster, last))
    dead = (-1, [], [second, last], [last]) if elr else (-1, [last], [], [])
    eventually(lambda: described(bootstrap, "t") == dead, "a dead ISR")
    restart(cluster, name_of(cluster, first), name_of(cluster, second))
    if elr:
        eventually(lambda: described(bootstrap, "t")[0] == second, "who was eligible leading")
        assert last not in isr_of(bootstrap, "t", 0), "it leads before the last one is back"
    else:
        assert described(bootstrap, "t") == dead, "only the last one is waited for"
    restart(cluster, name_of(cluster, last))
    eventually(lambda: isr_of(bootstrap, "t", 0) == sorted([first, second, last]), "all in sync")
    eventually(lambda: described(bootstrap, "t")[2:] == ([], []), "nobody eligible any more")
    found = read_all(bootstrap, "t", 1)
    assert [message.value() for message in found[0]] == numbered(range(BOTH + ALONE))
    assert_all_there_once_in_order(found, sender.sent.acked)


def test_kafkas_own_topics_command_shows_eligible_replicas(start_cluster: Start) -> None:
    """kafka-topics.sh --describe of Apache Kafka, from its jars: the one client that asks for them today."""
    jars = os.environ.get("KVORUM_KAFKA_JARS")
    if jars is None or shutil.which("java") is None:
        pytest.skip("run outside CI: needs java, and Apache Kafka's jars in the folder that KVORUM_KAFKA_JARS names")
    cluster = start_three(start_cluster, 1)
    bootstrap = cluster.plan.bootstrap
    command = ["java", "-cp", f"{jars}/*", "org.apache.kafka.tools.TopicCommand", "--describe", "--topic", "seen"]

    def rows() -> list[dict[str, str]]:
        done = subprocess.run(
            [*command, "--bootstrap-server", bootstrap], capture_output=True, text=True, timeout=60, check=True
        )
        lines = [line.strip().split("\t") for line in done.stdout.splitlines() if "Partition:" in line]
        return [{key: value.strip() for key, _, value in (cell.partition(":") for cell in line)} for line in lines]

    _, leader, follower = lose_the_isr(cluster, "seen", 1)
    (row,) = rows()
    assert (row["Leader"], row["Isr"]) == ("none", "")
    assert (row["Elr"], row["LastKnownElr"]) == (str(leader), str(leader))
    restart(cluster, name_of(cluster, leader))
    eventually(lambda: isr_of(bootstrap, "seen", 0) == sorted([leader, follower]), "both in the ISR")
    (row,) = rows()
    assert (row["Leader"], row["Elr"], row["LastKnownElr"]) == (str(leader), "", "")
