"""A broker is taken out for maintenance, and another is decommissioned, while clients write: nothing is lost.

Asked by an unmodified client (confluent-kafka's IncrementalAlterConfigs), by `kvorum brokers`, and over HTTP.
"""

import json
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from kvorum.cluster.local.local import LocalCluster
from tests.cluster.clients import Sender, assert_all_there_once_in_order, create_topic, eventually, read_all
from tests.cluster.conftest import clusters_in
from tests.cluster.nodes import active_controller, addresses, id_of, name_of, restart
from tests.cluster.topics import topics_at

PARTITIONS = 6
STATE = "kvorum.broker.state"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three nodes, each broker and controller."""
    with clusters_in(tmp_path_factory.mktemp("duty")) as start:
        yield start("three-nodes.yaml")


def brokers(cluster: LocalCluster, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run `kvorum brokers`."""
    command = [sys.executable, "-m", "kvorum.cli.main", "brokers", *arguments, "-b", cluster.plan.bootstrap]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def http(cluster: LocalCluster, method: str, path: str, body: object = None) -> tuple[int, Any]:
    """Ask the admin API of a node that runs."""
    data = None if body is None else json.dumps(body).encode()
    for url in cluster.plan.admin_urls():
        request = urllib.request.Request(
            f"{url}{path}", data=data, method=method, headers={"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())
        except urllib.error.URLError:
            continue  # this node is down
    raise AssertionError("no node answers")


def set_state(cluster: LocalCluster, broker_id: int, value: str) -> None:
    """Ask with the client of somebody else."""
    entry = ConfigEntry(STATE, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, str(broker_id), incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": cluster.plan.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(30)


def partitions(cluster: LocalCluster, topic: str, *but: str) -> list[tuple[int, list[int], list[int]]]:
    """Return leader, replicas and ISR of each partition, as the first broker tells it that is none of these."""
    address = next(address for name, address in addresses(cluster).items() if name not in but)
    rows = topics_at(address, topic)[topic].partitions
    return [(row.leader_id, row.replica_nodes, row.isr_nodes) for row in rows]


def every_partition(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(PARTITIONS)]


@contextmanager
def writing(cluster: LocalCluster, topic: str) -> Iterator[Sender]:
    """Write all the while, and hold what was acknowledged against what is there at the end."""
    sender, enough = Sender(cluster.plan.bootstrap, topic), threading.Event()

    def write() -> None:
        while not enough.wait(0.02):
            sender.send(12, PARTITIONS)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        eventually(lambda: len(sender.sent.acked) > 100, "the first records")
        yield sender
        before = len(sender.sent.acked)
        eventually(lambda: len(sender.sent.acked) > before + 100, "records after it all")
    finally:
        enough.set()
        thread.join()
    sender.flush()
    assert not sender.sent.failed, sender.sent.failed[:3]
    assert_all_there_once_in_order(read_all(cluster.plan.bootstrap, topic, PARTITIONS), sender.sent.acked)


def test_a_broker_in_maintenance_leads_nothing_until_it_is_over(cluster: LocalCluster) -> None:
    create_topic(cluster.plan.bootstrap, "kept", PARTITIONS, 3)
    everybody = [1, 2, 3]
    with writing(cluster, "kept"):
        set_state(cluster, 1, "maintenance")

        def led_by_others() -> bool:
            return all(leader in (2, 3) for leader, _, _ in partitions(cluster, "kept"))

        eventually(led_by_others, lambda: f"{partitions(cluster, 'kept')} led by others")
        assert all(sorted(isr) == everybody for _, _, isr in partitions(cluster, "kept")), "its replicas follow"
        waited = brokers(cluster, "maintenance", "1")
        assert waited.returncode == 0 and "can be stopped" in waited.stdout, waited.stdout + waited.stderr

        # A restart of the broker, which is a controller, too, ends nothing.
        name = name_of(cluster, 1)
        cluster.kill(name)
        restart(cluster, name)

        def all_in_sync() -> bool:
            return all(sorted(isr) == everybody for _, _, isr in partitions(cluster, "kept"))

        eventually(all_in_sync, lambda: f"{partitions(cluster, 'kept')} in sync")
        admin = AdminClient({"bootstrap.servers": cluster.plan.bootstrap})
        elected = admin.elect_leaders(ElectionType.PREFERRED, every_partition("kept")).result(30)
        outcomes = {None if error is None else error.name() for error in elected.values()}
        assert "PREFERRED_LEADER_NOT_AVAILABLE" in outcomes, elected
        assert led_by_others()

        # The next active controller goes on from what the metadata say.
        ended = http(cluster, "DELETE", "/v1/brokers/1/maintenance")
        assert ended[0] == 200 and ended[1]["requested"] == "active", ended
        active = active_controller(cluster)
        cluster.kill(active)
        restart(cluster, active)

        def balanced() -> bool:
            return all(leader == replicas[0] for leader, replicas, _ in partitions(cluster, "kept") if replicas[0] == 1)

        eventually(balanced, lambda: f"1 leads again: {partitions(cluster, 'kept')}")
    reported = eventually(
        lambda: (found := http(cluster, "GET", "/v1/brokers/1/maintenance")[1])["state"] == "active" and found,
        "over",
    )
    assert reported["done"]


def test_a_broker_is_decommissioned_stopped_and_forgotten(cluster: LocalCluster) -> None:
    for topic in ("kept", "__consumer_offsets"):
        http(cluster, "DELETE", f"/v1/topics/{topic}")
    create_topic(cluster.plan.bootstrap, "wide", 1, 3)
    create_topic(cluster.plan.bootstrap, "moved", PARTITIONS, 2, min_insync_replicas="1")
    refused = brokers(cluster, "decommission", "1", "--dry-run")
    assert refused.returncode == 1 and "wide-0 has 3 replica(s), and 2 broker(s) would remain" in refused.stderr
    http(cluster, "DELETE", "/v1/topics/wide")
    with writing(cluster, "moved"):
        status, reported = http(cluster, "PUT", "/v1/brokers/1/decommission", {"throttle_bytes_per_second": 50_000_000})
        assert status == 200 and reported["requested"] == "decommissioned", reported
        active = active_controller(cluster)
        if id_of(cluster, active) != 1:
            cluster.kill(active)
            restart(cluster, active)
        watched = brokers(cluster, "decommission", "1", "--timeout", "60")
        assert watched.returncode == 0 and "Stop it, then unregister it" in watched.stdout, watched.stderr
        assert all(sorted(replicas) == [2, 3] for _, replicas, _ in partitions(cluster, "moved"))
        create_topic(cluster.plan.bootstrap, "new", 8, 2)
        assert all(sorted(replicas) == [2, 3] for _, replicas, _ in partitions(cluster, "new"))
        runs = brokers(cluster, "unregister", "1")
        assert runs.returncode == 1 and "stop it first" in runs.stderr, runs.stdout + runs.stderr
        cluster.kill(name_of(cluster, 1))
        eventually(lambda: brokers(cluster, "unregister", "1").returncode == 0, "unregistered")
    listed = json.loads(brokers(cluster, "list", "-o", "json").stdout)
    assert [(row["broker"], row["state"]) for row in listed] == [(2, "active"), (3, "active")]
