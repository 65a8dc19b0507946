"""The test's interface to a cluster of real processes: a few methods whose effects end at the latest with the test.

Every call blocks; any thread may make it. An asyncio test uses `cluster.aio`.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kvorum.chaos import history
from kvorum.chaos.faults.events import ActiveFault
from kvorum.chaos.faults.fault_kinds import FAULTS, inject
from kvorum.chaos.faults.inside_faults import InsideFaults, inside_configs
from kvorum.chaos.faults.lab import Lab
from kvorum.chaos.faults.observer import AT_ONCE_MS
from kvorum.chaos.faults.processes import READY, START_SECONDS
from kvorum.chaos.faults.shape import LabShape
from kvorum.chaos.faults.target_cluster import HEALTHY_SECONDS, LEADER_SECONDS, POLL_SECONDS, LabError
from kvorum.chaos.pytest import topics as topics
from kvorum.chaos.pytest.async_tests import AsyncKvorumCluster

if TYPE_CHECKING:
    from kvorum.client.sync import SyncCluster

CONTROLLERS_MAX: Final = 3
"""Default for clusters: three survive the loss of one, more cost only time."""
REPLICAS_MAX: Final = 3
"""Default for topics."""
TEST_CONFIGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
}
"""Kafka's defaults cost a test seconds.

The first assignment of a consumer group is delayed by 3 s, and internal topics have 50 partitions, whose files are
created, and removed again by pytest.
"""
KNOWN_SECONDS: Final = 1.0
"""A new topic reaches brokers in some milliseconds; one that is unknown by then does not exist."""


class NoLinks(Exception):
    """A fault on links, of a cluster that was made without proxies."""


@dataclass(slots=True, kw_only=True)
class KvorumCluster:
    """See the module. Nodes are named node-1, node-2, ...; all clients together are "clients"."""

    folder: str
    lab: Lab
    """The full interface of the lab, for what is missing here."""
    _faults: list[history.Fault] = field(repr=False)
    _notes: dict[int, str] = field(default_factory=dict, repr=False)
    """Consequences of a fault, by its id."""
    _admin: "SyncCluster | None" = field(default=None, repr=False)

    @classmethod
    def start_in(
        cls,
        folder: str,
        *,
        brokers: int = 3,
        controllers: int | None = None,
        configs: Mapping[str, object] | None = None,
        node_configs: Mapping[str, Mapping[str, object]] | None = None,
        links: bool = False,
        secure: bool = False,
    ) -> "KvorumCluster":
        """Make a cluster in an empty folder, start it, and wait until it is healthy.

        The first `controllers` nodes are controllers too (by default up to three). `configs`: by Kafka's keys, for all
        nodes; `node_configs`: {node: its own}. `links`: put a proxy on every link.
        `secure`: TLS and SCRAM, with `client_settings` for clients. Raises ValueError and ConfigError
        (invalid arguments), NoToxiproxy (with the remedy), LabError.
        """
        faults: list[history.Fault] = []
        shape = LabShape(
            brokers=brokers,
            controllers=min(CONTROLLERS_MAX, brokers) if controllers is None else controllers,
            configs={**TEST_CONFIGS, **inside_configs(folder), **texts_of(configs or {})},
            node_configs={node: texts_of(own) for node, own in (node_configs or {}).items()},
            secure=secure,
        )
        network = "proxies" if links else "plain"
        lab = Lab.create(os.path.join(folder, "cluster"), shape, network=network, on_fault=faults.append)  # type: ignore[arg-type]
        try:
            lab.wait_until_healthy()
        except BaseException:
            lab.close()
            raise
        return cls(folder=folder, lab=lab, _faults=faults)

    def close(self) -> None:
        """Kill every process and give everything back. Idempotent."""
        if self._admin is not None:
            self._admin.close()
        self.lab.close()

    # Nodes and roles.

    @property
    def bootstrap(self) -> str:
        """bootstrap.servers of clients."""
        return self.lab.bootstrap

    @property
    def bootstrap_servers(self) -> list[str]:
        """The same as a list, as aiokafka and kafka-python take it."""
        return self.bootstrap.split(",")

    @property
    def client_settings(self) -> dict[str, str]:
        """Settings of a client by the names of librdkafka (confluent-kafka): address and, if secure, TLS and login."""
        return dict(self.lab.access.librdkafka())

    @property
    def java_settings(self) -> dict[str, str]:
        """The same by the names of Java clients."""
        security, bootstrap = self.lab.lab_security, self.bootstrap
        return {"bootstrap.servers": bootstrap} if security is None else security.java_settings(bootstrap)

    @property
    def aio(self) -> AsyncKvorumCluster:
        """The methods of this cluster for asyncio tests: `await cluster.aio.kill("node-1")`."""
        return AsyncKvorumCluster(self)

    @property
    def nodes(self) -> list[str]:
        """All nodes, running or not."""
        return self.lab.nodes

    def leader_of(self, topic: str, partition: int, timeout_seconds: float = LEADER_SECONDS) -> str:
        """Return the node that leads a partition. Raises LabError after a timeout, at once for an unknown partition."""
        self._need_partition(topic, partition)
        return self.lab.leader_of(topic, partition, timeout_seconds)

    def _need_partition(self, topic: str, partition: int) -> None:
        """Raise LabError where brokers answer and none knows the partition, even KNOWN_SECONDS later."""
        deadline = time.monotonic() + KNOWN_SECONDS
        while (known := self.lab.observer.topics()) is not None and not 0 <= partition < known.get(topic, 0):
            if time.monotonic() >= deadline:
                topics = ", ".join(sorted(known)) or "none"
                partitions = f"it has {known.get(topic)} partition(s)" if topic in known else f"topics: {topics}"
                raise LabError(f"{topic}-{partition} does not exist; {partitions}")
            time.sleep(POLL_SECONDS)

    def isr_of(self, topic: str, partition: int) -> list[str]:
        """Return the nodes in sync. Raises LabError for an unknown partition."""
        return self.lab.isr_of(topic, partition)

    def active_controller(self, timeout_seconds: float = LEADER_SECONDS) -> str:
        """Return the node of the active controller. Raises LabError if there is none in time."""
        return self.lab.active_controller(timeout_seconds)

    def wait_until_healthy(self, timeout_seconds: float = HEALTHY_SECONDS) -> None:
        """Wait until every broker is unfenced and every replica in sync. Raises LabError with the problems."""
        self.lab.wait_until_healthy(timeout_seconds)

    # Topics and groups.

    @property
    def admin(self) -> "SyncCluster":
        """Kvorum's Python API for this cluster (docs/python-api.md), without proxies. Raises Unreachable."""
        from kvorum.client.sync import SyncCluster

        if self._admin is None:
            access = self.lab.direct_access
            security: dict[str, Any] = dict(access.properties)
            self._admin = SyncCluster.connect(access.bootstrap, client_id="kvorum-pytest", **security)
        return self._admin

    def create_topic(
        self, topic: str, partitions: int = 1, replicas: int | None = None, configs: Mapping[str, object] | None = None
    ) -> None:
        """Create a topic and wait until each partition has a leader; with up to three replicas if not given.

        Raises KafkaException as the admin client does (TOPIC_ALREADY_EXISTS), LabError.
        """
        count = min(REPLICAS_MAX, len(self.nodes)) if replicas is None else replicas
        topics.create(self.lab.direct_access, topic, partitions, count, texts_of(configs or {}))
        for partition in range(partitions):
            self.lab.leader_of(topic, partition)

    def wait_for_lag(
        self, group: str, topic: str, at_most: int = 0, timeout_seconds: float = topics.LAG_SECONDS
    ) -> int:
        """Wait until a consumer group's lag in a topic is at most `at_most` offsets; return the lag.

        A partition without a committed offset counts in full. Raises LabError with the lag of each partition.
        """
        return topics.wait_for_lag(self.lab.direct_access, group, topic, at_most, timeout_seconds)

    # Faults, from the table of fault_kinds. A stopped node stays down until `restart` or `heal`.

    @property
    def inside(self) -> InsideFaults:
        """Faults from inside: requests refused, late or lost by API; listeners that refuse; failpoints."""
        return self.lab.inside

    def inject(self, fault: str, *targets: str, **options: object) -> ActiveFault | None:
        """Begin any fault of docs/chaos.md: `inject("clock_jump", "node-1", offset_ms=60_000)`.

        The result ends it; None: it is over at once. Raises KeyError, ValueError, FaultError, NoLinks.
        """
        kind = FAULTS[fault]
        if kind.needs == "links" and not self.lab.links.kinds:
            raise NoLinks(
                f"{fault} needs proxies on the links: mark the test with @pytest.mark.kvorum(links=True), "
                "or run pytest with --kvorum-links"
            )
        alone = self._only_on(targets[0]) if kind.needs == "processes" and len(targets) == 1 else []
        injected = inject(self.lab, fault, *targets, **options)
        if alone and injected is not None:
            self._notes[injected.id] = (
                f"{topics.join_names(alone)} had its only replica on {targets[0]} and has no leader without it: "
                "create topics with more replicas to survive this"
            )
        return injected

    def _begin(self, fault: str, *targets: str, **options: object) -> ActiveFault:
        injected = self.inject(fault, *targets, **options)
        assert injected is not None, "it lasts"
        return injected

    def kill(self, node: str) -> ActiveFault:
        """kill -9 all processes of a node."""
        return self._begin("kill", node)

    def terminate(self, node: str) -> ActiveFault:
        """Shut a node down in order."""
        return self._begin("terminate", node)

    def pause(self, node: str) -> ActiveFault:
        """Suspend all processes of a node (SIGSTOP): they neither respond nor close a connection."""
        return self._begin("pause", node)

    def cut(self, a: str, b: str) -> ActiveFault:
        """Cut two nodes, or a node and "clients", off from each other."""
        return self._begin("cut", a, b)

    def cut_one_way(self, a: str, b: str) -> ActiveFault:
        """Drop all that `a` sends to `b`."""
        return self._begin("cut_one_way", a, b)

    def slow(self, a: str, b: str, ms: int) -> ActiveFault:
        """Delay everything between two parties by this time, in each direction."""
        return self._begin("slow", a, b, latency_ms=ms)

    def isolate(self, node: str) -> ActiveFault:
        """Cut a node off from all others and from the clients; it lives on."""
        return self._begin("isolate", node)

    def resume(self, node: str) -> None:
        """Resume a paused node."""
        self.lab.processes.resume(node)

    def restart(self, node: str) -> None:
        """Start a node that is down, or shut it down in order and start it. Raises LabError."""
        if node in self.lab.processes.running_nodes():
            self.lab.processes.restart(node)
            return
        outcome = self.lab.processes.start(node, wait_seconds=START_SECONDS)
        if outcome.get(node) != READY:
            raise LabError(f"{node} did not start: {outcome.get(node)}")

    def _only_on(self, node: str) -> list[str]:
        """Return the partitions that have their only replica on a node."""
        if node not in self.nodes:
            return []
        node_id = self.lab.id_of(node)
        found = self.lab.observer.partitions(AT_ONCE_MS)
        return sorted(name for name, view in found.items() if view.replicas == (node_id,))

    # The end of it all.

    @property
    def is_touched(self) -> bool:
        """Whether any fault is in force, or a node is down."""
        return bool(self.lab.register.in_force()) or len(self.lab.processes.running_nodes()) < len(self.nodes)

    def heal(self) -> None:
        """End every fault, and start every node that is down; see `wait_until_healthy`. Raises StartError."""
        self.lab.heal(start=False)
        self.lab.processes.ensure_running()

    def recover(self, timeout_seconds: float = HEALTHY_SECONDS) -> None:
        """End every fault, start every node, wait until all is well. Raises StartError, LabError."""
        self.lab.recover(timeout_seconds)

    def story(self) -> str:
        """Return the faults so far, and the paths of the processes' logs."""
        lines = []
        for event in self._faults:
            lines.append(f"{event.t:8.3f} s  {event.phase:5}  {event.story}")
            if event.phase == "begin" and event.id in self._notes:
                lines.append(f"{'':17} {self._notes[event.id]}")
        return "\n".join([*lines, f"logs: {os.path.join(self.folder, 'cluster', 'node-*', '*.log')}"])


def texts_of(configs: Mapping[str, object]) -> dict[str, str]:
    """Return configs as texts: numbers and booleans are accepted."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in configs.items()}
