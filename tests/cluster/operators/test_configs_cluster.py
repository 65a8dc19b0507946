"""A real node and a real client: junk of every dynamic config, and the node lives on and starts again."""

from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from kvorum.cluster.local.formatting import new_cluster_id
from kvorum.cluster.local.local import LocalCluster
from kvorum.cluster.local.plan import plan_of
from kvorum.runtime import config_defs
from kvorum.runtime.cluster_file import dev_cluster
from tests.cluster.conftest import logs_of

START_SECONDS = 60.0
JUNK = ("", "x", "0", "-1", "2147483647", "9223372036854775807", "-9223372036854775808", "NaN", "127.0.0.1:5x", "a,,b")
REFUSED = {KafkaError.INVALID_REQUEST, KafkaError.INVALID_CONFIG}
KEPT = frozenset(("cordoned.log.dirs", "listeners", "max.connections", "max.connections.per.ip", "message.max.bytes"))
"""Set only where Kafka, too, would refuse it: the client of this test has to connect and to write."""


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = str(tmp_path_factory.mktemp("configs") / "cluster")
    made = LocalCluster.create(folder, plan_of(dev_cluster(1, 0, folder, []), new_cluster_id()))
    try:
        start(made)
        yield made
    finally:
        made.kill("node-1")


def start(cluster: LocalCluster) -> None:
    outcome = cluster.start(timeout_seconds=START_SECONDS)
    assert set(outcome.values()) == {"ready"}, logs_of(cluster, outcome)


def changes() -> Iterator["Change"]:
    """Yield the type, name and key of every config that a running cluster takes."""
    for key, definition in config_defs.BROKER.items():
        if definition.dynamic and key not in config_defs.KEPT_IN_METADATA:
            yield ResourceType.BROKER, "1", key
            yield ResourceType.BROKER, "1", f"listener.name.plaintext.{key}"
    for key in config_defs.TOPIC:
        yield ResourceType.TOPIC, "t", key


Change = tuple[ResourceType, str, str]


def altered(admin: AdminClient, wanted: Mapping[Change, str | None]) -> dict[Change, int]:
    """Return the codes that a client gets that sets (None: deletes) configs, each by a request of its own."""
    futures = {}
    for (kind, name, key), value in wanted.items():
        operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        entry = ConfigEntry(key, value or "", incremental_operation=operation)
        resource = ConfigResource(kind, name, incremental_configs=[entry])
        futures[kind, name, key] = admin.incremental_alter_configs([resource], request_timeout=60)[resource]
    return {change: code_of(future) for change, future in futures.items()}


def code_of(future: Future[None]) -> int:
    """Return the code that a request was answered with."""
    try:
        future.result(60)
    except KafkaException as error:
        return int(error.args[0].code())
    return int(KafkaError.NO_ERROR)


def test_a_node_lives_on_and_starts_again_after_junk_of_every_dynamic_config(cluster: LocalCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.plan.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(20)
    pids = {role: cluster.pid_of("node-1", role) for role in ("broker", "controller")}
    codes: Counter[int] = Counter()
    taken: set[Change] = set()
    for value in JUNK:
        keys = [each for each in changes() if value not in ("", "0") or each[2].rpartition("plaintext.")[2] not in KEPT]
        answers = altered(admin, dict.fromkeys(keys, value))
        codes.update(answers.values())
        taken |= {change for change, code in answers.items() if code == KafkaError.NO_ERROR}
    assert codes.keys() <= {KafkaError.NO_ERROR, *REFUSED}, codes
    assert codes[KafkaError.NO_ERROR] > 100 and sum(codes[code] for code in REFUSED) > 1_000, codes
    assert {role: cluster.pid_of("node-1", role) for role in pids} == pids, "no process has ended"

    # All that was taken is in force together at the next start.
    assert cluster.stop("node-1", timeout_seconds=START_SECONDS) == []
    start(cluster)
    assert admin.list_topics("t", timeout=20).topics["t"].error is None
    # One request removes them all: one by one, rules between keys would order them.
    entries = [
        ConfigEntry(key, "", incremental_operation=AlterConfigOpType.DELETE)
        for kind, _, key in taken
        if kind is ResourceType.BROKER
    ]
    broker = ConfigResource(ResourceType.BROKER, "1", incremental_configs=entries)
    assert code_of(admin.incremental_alter_configs([broker], request_timeout=60)[broker]) == KafkaError.NO_ERROR
