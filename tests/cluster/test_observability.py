"""Health and metrics of the real processes: what an operator's Prometheus and load balancer see."""

import json
import os
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient
from prometheus_client.parser import text_string_to_metric_families

from kvorum.cluster.local.formatting import raft_directory
from kvorum.cluster.local.local import LocalCluster, wait_for_exit
from kvorum.cluster.process.exits import Exit
from kvorum.quorum.raft.snapshot import open_snapshot
from kvorum.runtime import metric_names as names
from kvorum.runtime.config_files import load_node
from kvorum.runtime.disk import OsDisk
from tests.cluster.clients import Sender, create_topic, eventually, isr_of, leader_of, read_all
from tests.cluster.conftest import Start

RECORDS = 300
PARTITIONS = 3
OFFSETS_PARTITIONS = 50
"""Of __consumer_offsets, which a consumer that asks for its coordinator brings into being."""
TIMEOUT_SECONDS = 10

END_SECONDS = 60

Labels = tuple[tuple[str, str], ...]
Scrape = dict[tuple[str, Labels], float]


def get(url: str) -> tuple[int, str]:
    """Return status and body; (0, "") where nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:  # refused, or reset: a dying process still has the socket for a moment
        return 0, ""


def scrape(base: str) -> Scrape:
    """Return what a process tells Prometheus; a sample that is a duplicate would make Prometheus refuse all of it."""
    status, text = get(f"{base}/metrics")
    assert status == 200
    found: Scrape = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, f"{key} is a duplicate"
            found[key] = sample.value
    return found


def urls(cluster: LocalCluster, name: str) -> tuple[str, str, str]:
    """Return where a node's broker, controller and admin process are asked."""
    properties = cluster.plan.node(name).properties
    return (
        properties["metrics.listener"],
        properties["kvorum.controller.metrics.listener"],
        properties.get("admin.listeners", ""),
    )


def names_in(found: Scrape) -> set[str]:
    return {name for name, _ in found}


def total(found: Scrape, name: str, **labels: str) -> float:
    """Return the sum of a metric over all label values but those given."""
    rows = [value for (each, its), value in found.items() if each == name and labels.items() <= dict(its).items()]
    assert rows, f"no {name} with {labels}"
    return sum(rows)


STRIMZI_BROKER = {
    names.LEADER_COUNT,
    names.PARTITION_COUNT,
    names.UNDER_REPLICATED_PARTITIONS,
    names.UNDER_MIN_ISR_PARTITION_COUNT,
    names.BYTES_IN,
    names.BYTES_OUT,
    names.MESSAGES_IN,
    names.TOTAL_PRODUCE_REQUESTS,
    names.TOTAL_FETCH_REQUESTS,
    names.FAILED_PRODUCE_REQUESTS,
    names.FAILED_FETCH_REQUESTS,
    names.LOG_SIZE,
    names.OFFLINE_LOG_DIRECTORY_COUNT,
    names.PARTITION_UNDER_MIN_ISR,
    names.PARTITION_AT_MIN_ISR,
    names.PARTITION_REPLICAS_COUNT,
    names.NETWORK_PROCESSOR_AVG_IDLE,
    names.REQUEST_HANDLER_AVG_IDLE,
    names.CONNECTION_COUNT,
}
STRIMZI_CONTROLLER = {
    names.ACTIVE_CONTROLLER_COUNT,
    names.OFFLINE_PARTITIONS_COUNT,
    names.UNCLEAN_LEADER_ELECTIONS,
    names.RAFT_STATE,
    names.RAFT_CURRENT_LEADER,
    names.RAFT_CURRENT_EPOCH,
    names.RAFT_CURRENT_VOTE,
    names.RAFT_HIGH_WATERMARK,
    names.RAFT_LOG_END_OFFSET,
    names.RAFT_APPEND_RECORDS_RATE,
    names.RAFT_FETCH_RECORDS_RATE,
    names.RAFT_COMMIT_LATENCY_AVG,
    names.RAFT_INCOMING_BYTES,
    names.RAFT_OUTGOING_BYTES,
    names.RAFT_REQUESTS,
    names.RAFT_RESPONSES,
    names.RAFT_CURRENT_STATE,
    names.CONNECTION_COUNT,
}


def assert_broker_tells_what_happened(found: Scrape) -> None:
    """After RECORDS records were produced to PARTITIONS partitions of `orders`, and read once."""
    assert names_in(found) >= STRIMZI_BROKER
    for topic in ("orders", ""):
        assert total(found, names.MESSAGES_IN, topic=topic) == RECORDS
        assert total(found, names.BYTES_IN, topic=topic) == total(found, names.LOG_SIZE, topic="orders")
        assert total(found, names.BYTES_OUT, topic=topic) >= total(found, names.BYTES_IN, topic=topic)
        assert total(found, names.TOTAL_PRODUCE_REQUESTS, topic=topic) >= PARTITIONS
        assert total(found, names.FAILED_PRODUCE_REQUESTS, topic=topic) == 0
    leaders = total(found, names.LEADER_COUNT)
    assert PARTITIONS <= leaders == total(found, names.PARTITION_COUNT) <= PARTITIONS + OFFSETS_PARTITIONS
    assert total(found, names.UNDER_REPLICATED_PARTITIONS) == 0
    assert total(found, names.OFFLINE_LOG_DIRECTORY_COUNT) == 0
    assert total(found, names.LOG_END_OFFSET, topic="orders") == RECORDS
    assert total(found, names.TOPIC_PARTITIONS, topic="orders") == PARTITIONS
    for index in range(PARTITIONS):
        where = {"topic": "orders", "partition": str(index)}
        assert total(found, names.TOPIC_PARTITION_CURRENT_OFFSET, **where) == RECORDS / PARTITIONS
        assert total(found, names.TOPIC_PARTITION_OLDEST_OFFSET, **where) == 0
        assert total(found, names.TOPIC_PARTITION_REPLICAS, **where) == 1
        assert total(found, names.TOPIC_PARTITION_IN_SYNC_REPLICA, **where) == 1
        assert total(found, names.TOPIC_PARTITION_UNDER_REPLICATED, **where) == 0
        assert total(found, names.TOPIC_PARTITION_LEADER_IS_PREFERRED, **where) == 1
    assert total(found, names.REQUESTS, request="Produce") >= 1
    assert total(found, f"{names.REQUEST_SECONDS}_count", request="Produce") == total(
        found, names.REQUEST_ERRORS, request="Produce", error="NONE"
    )
    assert total(found, names.CONNECTION_CREATION, listener="PLAINTEXT") >= 1
    assert 0 <= total(found, names.NETWORK_PROCESSOR_AVG_IDLE) <= 1


def assert_controller_tells_what_happened(found: Scrape) -> None:
    assert names_in(found) >= STRIMZI_CONTROLLER
    assert total(found, names.ACTIVE_CONTROLLER_COUNT) == 1
    assert total(found, names.ACTIVE_BROKER_COUNT) == 1
    assert total(found, names.FENCED_BROKER_COUNT) == 0
    counts = total(found, names.GLOBAL_TOPIC_COUNT), total(found, names.GLOBAL_PARTITION_COUNT)
    assert counts in ((1, PARTITIONS), (2, PARTITIONS + OFFSETS_PARTITIONS))
    assert total(found, names.OFFLINE_PARTITIONS_COUNT) == 0
    assert total(found, names.UNCLEAN_LEADER_ELECTIONS) == 0
    assert total(found, names.RAFT_CURRENT_STATE, state="leader") == 1
    assert total(found, names.RAFT_CURRENT_LEADER) == total(found, names.RAFT_CURRENT_VOTE) == 1
    assert total(found, names.RAFT_CURRENT_EPOCH) >= 1
    assert total(found, names.RAFT_HIGH_WATERMARK) > PARTITIONS
    assert total(found, names.RAFT_LOG_END_OFFSET) >= total(found, names.RAFT_HIGH_WATERMARK)
    assert total(found, names.RAFT_COMMIT_LATENCY_AVG) > 0
    assert total(found, names.RAFT_APPEND_RECORDS_RATE) > 0
    assert total(found, f"{names.JOURNAL_SYNC_SECONDS}_count") > 0
    assert total(found, names.REQUESTS, request="BrokerHeartbeat") >= 1


def test_each_process_reports_its_health_and_metrics(start_cluster: Start) -> None:
    cluster = start_cluster("single.yaml")
    broker, controller, admin = urls(cluster, cluster.plan.nodes[0].name)
    for base in (broker, controller):
        assert get(f"{base}/health/live") == (200, json.dumps({"live": True}) + "\n")
        assert get(f"{base}/health/ready") == (200, json.dumps({"ready": True, "reason": None}) + "\n")
    create_topic(cluster.plan.bootstrap, "orders", PARTITIONS, 1)
    sender = Sender(cluster.plan.bootstrap, "orders")
    sender.send(RECORDS, partitions=PARTITIONS)
    sender.flush()
    assert not sender.sent.failed
    read_all(cluster.plan.bootstrap, "orders", PARTITIONS)
    assert_broker_tells_what_happened(scrape(broker))
    assert_controller_tells_what_happened(scrape(controller))
    for base in (broker, controller):
        found = scrape(base)
        assert total(found, names.BUILD_INFO, node_id="1") == 1
        assert total(found, "process_resident_memory_bytes") > 10_000_000
        assert total(found, "process_cpu_seconds_total") > 0
        assert total(found, names.EVENT_LOOP_LAG_MAX) < TIMEOUT_SECONDS
        assert total(found, f"{names.EVENT_LOOP_LAG}_count") > 0
    node = cluster.plan.nodes[0].name
    assert_a_process_tells_of_itself(broker, "broker", cluster.pid_of(node, "broker"))
    assert_a_process_tells_of_itself(controller, "controller", cluster.pid_of(node, "controller"))
    assert_a_broker_tells_who_is_connected(broker, cluster.plan.bootstrap)
    assert_a_snapshot_is_written_on_demand(cluster, node, controller)
    assert get(f"{admin}/health/live")[0] == 200
    assert get(f"{admin}/health/ready")[0] == 200
    status, text = get(f"{admin}/v1/health")
    assert status == 200
    assert json.loads(text)["healthy"] is True


def assert_a_process_tells_of_itself(base: str, role: str, pid: int) -> None:
    status, text = get(f"{base}/v1/node")
    reported = json.loads(text)
    assert (status, reported["node_id"], reported["role"], reported["pid"]) == (200, 1, role, pid)
    assert 0 < reported["uptime_ms"] <= time.time() * 1000 - reported["started_ms"] + TIMEOUT_SECONDS * 1000
    status, text = get(f"{base}/v1/node/log?lines=1000")
    lines, room = json.loads(text)["lines"], "quorum" if role == "controller" else role
    assert status == 200 and room in {line["room"] for line in lines}
    assert all(set(line) == {"time", "level", "room", "message", "facts"} for line in lines)
    if role == "broker":
        assert "broker started and unfenced" in [line["message"] for line in lines]
    assert get(f"{base}/v1/node/log?level=loud")[0] == 400
    assert get(f"{base}/v1/nodes")[0] == 404
    assert post(f"{base}/v1/node")[0] == 405
    assert post(f"{base}/v1/node/snapshot", Origin="http://evil.example")[0] == 403


def assert_a_broker_tells_who_is_connected(base: str, bootstrap: str) -> None:
    """A client of librdkafka's is in the list by what it says of itself."""
    client = AdminClient({"bootstrap.servers": bootstrap, "client.id": "on-call"})
    own: list[dict[str, Any]] = []

    def is_told_of() -> bool:
        """librdkafka leaves its first connection when it knows the broker's id, and makes another one when it asks."""
        client.list_topics(timeout=TIMEOUT_SECONDS)
        status, text = get(f"{base}/v1/node/connections")
        reported = json.loads(text)
        assert status == 200 and reported["total"] == len(reported["connections"])
        own[:] = [each for each in reported["connections"] if each["client_id"] == "on-call" and each["bytes_out"]]
        return bool(own)

    eventually(is_told_of, "a connection of the client's")
    assert {each["software_name"] for each in own} >= {"confluent-kafka-python"}
    for each in own:
        assert (each["listener"], each["principal"]) == ("PLAINTEXT", "User:ANONYMOUS")
        assert each["requests"] >= 1 and each["bytes_in"] > 0 and each["bytes_out"] > 0
    assert len(json.loads(get(f"{base}/v1/node/connections?limit=1")[1])["connections"]) == 1


def assert_a_snapshot_is_written_on_demand(cluster: LocalCluster, node: str, base: str) -> None:
    settings = load_node(cluster.node(node).config, environment={}).settings
    folder = f"{raft_directory(settings)}/snapshots"
    before = set(os.listdir(folder))
    status, text = post(f"{base}/v1/node/snapshot")
    reported = json.loads(text)
    assert status == 200 and reported["written"], text
    (name,) = {each for each in os.listdir(folder) if each.endswith(".snapshot")} - before
    snapshot = open_snapshot(OsDisk(), f"{folder}/{name}")
    snapshot.close()
    assert (snapshot.snapshot_id.end_offset, snapshot.snapshot_id.epoch) == (reported["end_offset"], reported["epoch"])
    assert snapshot.file_size == reported["bytes"] == os.path.getsize(f"{folder}/{name}")
    assert reported["end_offset"] > PARTITIONS and reported["took_ms"] >= 0


def post(url: str, **headers: str) -> tuple[int, str]:
    """Return status and body."""
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, method="POST", headers=headers), timeout=TIMEOUT_SECONDS
        ) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_broker_answers_while_its_controller_is_gone_and_the_next_one_counts_it(start_cluster: Start) -> None:
    cluster = start_cluster("single.yaml")
    name = cluster.plan.nodes[0].name
    broker, controller, admin = urls(cluster, name)
    cluster.pause(name, "node")  # who would start it again
    cluster.kill(name, "controller")
    assert get(f"{controller}/health/live") == (0, "")
    assert get(f"{broker}/health/live")[0] == 200
    assert total(scrape(broker), names.BROKER_STATE) == 3
    health = json.loads(get(f"{admin}/v1/health")[1])
    assert (health["healthy"], health["partitions"], health["controller_id"]) == (False, [], -1)
    assert (health["under_min_isr_partitions"], health["at_min_isr_partitions"]) == (0, 0)
    cluster.resume(name, "node")
    eventually(lambda: get(f"{controller}/health/ready")[0] == 200, "the controller ready again")
    eventually(lambda: total(scrape(controller), names.ACTIVE_BROKER_COUNT) == 1, "its broker known and unfenced")
    assert get(f"{broker}/health/ready")[0] == 200
    eventually(lambda: json.loads(get(f"{admin}/v1/health")[1])["healthy"], "a controller that tells of itself")


def test_a_dead_broker_is_fenced_long_before_its_session_is_over(start_cluster: Start) -> None:
    """kill -9 of the node with the active controller: its broker never had a connection to the next one."""
    cluster = start_cluster("three-nodes.yaml", f"broker.session.timeout.ms={SESSION_SECONDS * 1000:.0f}")
    create_topic(cluster.plan.bootstrap, "orders", PARTITIONS, 3)
    by_id = {int(node.properties["node.id"]): node.name for node in cluster.plan.nodes}
    active = next(
        node_id
        for node_id, name in by_id.items()
        if total(scrape(urls(cluster, name)[1]), names.ACTIVE_CONTROLLER_COUNT) == 1
    )
    followers_tell_their_lag(cluster, by_id)
    cluster.kill(by_id[active])
    left = [urls(cluster, name)[1] for node_id, name in by_id.items() if node_id != active]

    def fenced_fast() -> bool:
        found = [scrape(base) for base in left]
        leading = [each for each in found if total(each, names.ACTIVE_CONTROLLER_COUNT) == 1]
        return bool(leading) and total(leading[0], names.FENCED_BROKER_COUNT) == 1

    eventually(fenced_fast, "the dead broker fenced", seconds=SESSION_SECONDS / 2)
    assert sum(total(scrape(base), names.FAST_FENCINGS) for base in left) == 1
    assert sum(total(scrape(base), names.UNCLEAN_LEADER_ELECTIONS) for base in left) == 0
    assert all(total(scrape(base), names.OFFLINE_PARTITIONS_COUNT) == 0 for base in left)
    a_broker_told_to_end_gives_its_leaders_away(cluster, {each: name for each, name in by_id.items() if each != active})


def a_broker_told_to_end_gives_its_leaders_away(cluster: LocalCluster, by_id: dict[int, str]) -> None:
    """Of two brokers that are left the one that leads is told to end by HTTP: its node ends, with code 0."""
    bootstrap = cluster.plan.bootstrap
    eventually(lambda: isr_of(bootstrap, "orders", 0) == sorted(by_id), "both in sync")
    ending = leader_of(bootstrap, "orders", 0)
    (left,) = by_id.keys() - {ending}
    base, process = urls(cluster, by_id[ending])[0], cluster.processes(by_id[ending])["node"]
    assert post(f"{base}/v1/node/snapshot")[0] == 404, "a broker writes none"
    assert post(f"{base}/v1/node/controlled-shutdown") == (202, json.dumps({"stopping": True}) + "\n")
    assert wait_for_exit(process, END_SECONDS)
    assert cluster.exit_code(by_id[ending]) == Exit.DONE
    message = Path(cluster.node(by_id[ending]).log("broker")).read_text()
    assert f"controlled shutdown broker_id={ending} allowed=True" in message
    assert [leader_of(bootstrap, "orders", each) for each in range(PARTITIONS)] == [left] * PARTITIONS


def followers_tell_their_lag(cluster: LocalCluster, by_id: dict[int, str]) -> None:
    """Write to all partitions of `orders`, and see them told by their followers, each under the name of its leader."""
    sender = Sender(cluster.plan.bootstrap, "orders")
    sender.send(RECORDS, partitions=PARTITIONS)
    sender.flush_acked(RECORDS)

    def all_told() -> bool:
        found = {node_id: scrape(urls(cluster, name)[0]) for node_id, name in by_id.items()}
        leaders = {
            partition: int(leader)
            for page in found.values()
            for (partition,), leader in rows(page, names.TOPIC_PARTITION_LEADER, "partition").items()
        }
        assert all(total(page, names.FOLLOWERS_FAILED_PARTITIONS, clientId="Replica") == 0 for page in found.values())
        return len(leaders) == PARTITIONS and all(
            rows(page, names.FOLLOWER_LAG, "clientId", "partition")
            == {(f"ReplicaFetcherThread-0-{by}", each): 0 for each, by in leaders.items() if by != node_id}
            and total(page, names.FOLLOWERS_MAX_LAG, clientId="Replica") == 0
            for node_id, page in found.items()
        )

    eventually(all_told, "the lag of each follower, caught up")


def rows(found: Scrape, name: str, *labels: str) -> dict[tuple[str, ...], float]:
    """Return what is told of `orders` under a name, by these labels' values."""
    reported = ((dict(its), value) for (each, its), value in found.items() if each == name)
    return {tuple(its[label] for label in labels): value for its, value in reported if its["topic"] == "orders"}


SESSION_SECONDS = 60.0
"""Much longer than shipped: a busy machine takes its time for an election, too."""
