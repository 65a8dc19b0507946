"""What the quorum tests do: a writer of metadata that remembers what it was told, and looks at what is there."""

import random
import shutil
import threading
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from kvorum.cluster.local.local import LocalCluster
from kvorum.protocol.uuids import Uuid
from kvorum.runtime.disk import OsDisk
from kvorum.storage.checkpoints import read_meta_properties
from tests.cluster.clients import eventually, read_all
from tests.cluster.nodes import addresses, id_of, quorum_of
from tests.cluster.topics import Plan, complaints_of, topics_at

THREE_CONTROLLERS = """
cluster: {name: quorum}
defaults: {default.replication.factor: 2, min.insync.replicas: 1}
nodes:
  - {name: controller-1, id: 101, roles: controller, listeners: "CONTROLLER://127.0.0.1:0", metrics.listener: "http://127.0.0.1:0"}
  - {name: controller-2, id: 102, roles: controller, listeners: "CONTROLLER://127.0.0.1:0", metrics.listener: "http://127.0.0.1:0"}
  - {name: controller-3, id: 103, roles: controller, listeners: "CONTROLLER://127.0.0.1:0", metrics.listener: "http://127.0.0.1:0"}
  - {name: broker-1, id: 1, roles: broker, listeners: "PLAINTEXT://127.0.0.1:0", metrics.listener: "http://127.0.0.1:0"}
  - {name: broker-2, id: 2, roles: broker, listeners: "PLAINTEXT://127.0.0.1:0", metrics.listener: "http://127.0.0.1:0"}
"""
"""Controllers apart from brokers, so that a test may kill, damage and wipe them one by one."""
CONTROLLERS = ("controller-1", "controller-2", "controller-3")
BROKERS = ("broker-1", "broker-2")

REQUEST_SECONDS = 5
READY_SECONDS = 30
"""So long a cluster that was just started, on a busy machine, may need for the first request."""
CONFIG = "retention.ms"


def admin_of(bootstrap: str) -> AdminClient:
    """Return a client that keeps to itself which dead brokers it tried."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


@dataclass(slots=True)
class Written:
    """One topic as the writer knows it."""

    plan: Plan
    values: set[str] = field(default_factory=set)
    """What its config may be: the value that was acknowledged last, and one that may have been written behind it."""
    open: bool = False
    """A change of it was not answered, so it is not changed again: what it may be must stay two values."""


class MetadataWriter:
    """Creates topics and changes configs until told to stop, in a thread, one request at a time."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        self.topics: dict[str, Written] = {}
        """Topics whose creation was acknowledged."""
        self.refused: list[str] = []
        self.acknowledged = 0
        self._bootstrap = bootstrap
        self._rng = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metadata-writer")

    def __enter__(self) -> "MetadataWriter":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def wait_for(self, more: int) -> None:
        """Wait until so many more writes are acknowledged."""
        wanted = self.acknowledged + more
        eventually(lambda: self.acknowledged >= wanted, lambda: f"{more} writes; refusals: {self.refused[-5:]}")

    def _run(self) -> None:
        admin = admin_of(self._bootstrap)
        number = 0
        while not self._stop.is_set():
            settled = [name for name, topic in self.topics.items() if not topic.open]
            try:
                if settled and self._rng.random() < 0.6:
                    self._change(admin, self._rng.choice(settled), str(3_600_000 + number))
                else:
                    self._create(admin, f"topic-{number}", Plan(self._rng.randint(1, 4), self._rng.randint(1, 2)))
                self.acknowledged += 1
            except KafkaException as error:
                self.refused.append(str(error))
                # librdkafka waits for the controller it knew and does not ask anew who it is: a new client does.
                admin = admin_of(self._bootstrap)
            number += 1

    def _create(self, admin: AdminClient, name: str, plan: Plan) -> None:
        admin.create_topics([NewTopic(name, *plan)], request_timeout=REQUEST_SECONDS)[name].result(30)
        self.topics[name] = Written(plan)

    def _change(self, admin: AdminClient, name: str, value: str) -> None:
        entry = ConfigEntry(CONFIG, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
        topic = self.topics[name]
        topic.open = True
        topic.values.add(value)
        admin.incremental_alter_configs([resource], request_timeout=REQUEST_SECONDS)[resource].result(30)
        topic.values, topic.open = {value}, False


def configs_of(admin: AdminClient, names: list[str]) -> dict[str, str]:
    """Return {topic: value of CONFIG}, only where it is set on the topic."""
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
    found = {}
    for resource, future in admin.describe_configs(resources, request_timeout=30).items():
        entry = future.result(30)[CONFIG]
        if not entry.is_default:
            found[resource.name] = entry.value
    return found


def assert_written_everywhere(cluster: LocalCluster, written: dict[str, Written]) -> None:
    """Every acknowledged topic and config is on every broker, and no topic is half made."""
    for broker, address in addresses(cluster).items():
        admin = admin_of(address)

        def complaint(address: str = address, admin: AdminClient = admin) -> str | None:
            topics = topics_at(address)
            missing = [name for name in written if name not in topics]
            if missing:
                return f"lost topics {missing[:5]} of {len(written)}"
            half = [each for n, topic in written.items() for each in complaints_of(topics[n], topic.plan)]
            if half:
                return f"half made: {half[:5]}"
            values = configs_of(admin, [name for name in written if written[name].values])
            for name, topic in written.items():
                unset_too = topic.open and len(topic.values) == 1
                if topic.values and values.get(name) not in topic.values | ({None} if unset_too else set()):
                    return f"{name}: {CONFIG} is {values.get(name)}, acknowledged was one of {topic.values}"
            return None

        eventually(lambda: complaint() is None, lambda: f"{broker}: {complaint()}", 30)  # noqa: B023


def metadata_through(address: str) -> list[tuple[Any, ...]]:
    """Return all records of `__cluster_metadata` as a client reads them through one broker."""
    messages = read_all(address, "__cluster_metadata", 1)[0]
    return [(message.offset(), message.timestamp(), message.key(), message.value()) for message in messages]


def assert_same_metadata_through_every_broker(cluster: LocalCluster) -> int:
    """Records are equal up to the common end; return how many there are."""
    logs = {broker: metadata_through(address) for broker, address in addresses(cluster).items()}
    end = min(map(len, logs.values()))
    first = next(iter(logs.values()))[:end]
    assert end > 0 and [record[0] for record in first] == list(range(first[0][0], first[0][0] + end))
    for broker, records in logs.items():
        assert records[:end] == first, broker
    return end


def wait_for_voters(cluster: LocalCluster, directories: dict[str, Uuid]) -> None:
    """Wait until exactly these controllers vote, under these directory ids, and all have the whole log."""
    wanted = {id_of(cluster, name): directory for name, directory in directories.items()}

    def there() -> bool:
        quorum = quorum_of(cluster)
        return (
            quorum is not None
            and {state.replica_id: state.replica_directory_id for state in quorum.current_voters} == wanted
            and all(state.log_end_offset >= quorum.high_watermark for state in quorum.current_voters)
        )

    eventually(there, lambda: f"voters {wanted}; the quorum is {quorum_of(cluster)}")


def directory_of(cluster: LocalCluster, name: str) -> Uuid:
    """Return the directory id in a controller's meta.properties."""
    found = read_meta_properties(OsDisk(), cluster.node(name).data)
    assert found is not None
    return found.directory_id


def wipe(cluster: LocalCluster, name: str) -> Uuid:
    """Lose a stopped controller's directory and format it anew; return its new directory id."""
    before = directory_of(cluster, name)
    shutil.rmtree(cluster.node(name).data)
    formatted = cluster.format_lost(name)
    assert list(formatted) == [cluster.node(name).data]
    after = formatted[cluster.node(name).data]
    assert after == directory_of(cluster, name) != before
    return after


def create(cluster: LocalCluster, name: str, within: float = READY_SECONDS) -> None:
    """Create a topic; only an acknowledgement within that many seconds will do. Raises KafkaException."""
    admin = admin_of(cluster.plan.bootstrap)
    admin.create_topics([NewTopic(name, 1, 2)], request_timeout=within)[name].result(2 * within)


def topics_of(cluster: LocalCluster, broker: str) -> set[str]:
    """Return the topics one broker knows."""
    return set(topics_at(addresses(cluster)[broker]))
