"""The test's interface to a cluster of real processes: a few methods whose effects end at the latest with the test.

Every call blocks; any thread may make it. An asyncio test uses `cluster.aio`.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kvorum.chaos import history
from kvorum.chaos.faults.events import Injected
from kvorum.chaos.faults.inside import Inside, inside_configs
from kvorum.chaos.faults.lab import HEALTHY_SECONDS, LEADER_SECONDS, POLL_SECONDS, Lab, LabError
from kvorum.chaos.faults.observer import AT_ONCE_MS
from kvorum.chaos.faults.processes import DOWN_KINDS, READY
from kvorum.chaos.faults.shape import LabShape
from kvorum.chaos.pytest import topics as topics
from kvorum.chaos.pytest.async_tests import AsyncKvorumCluster

CONTROLLERS_MAX: Final = 3
"""Default for clusters: three survive the loss of one, more cost only time."""
START_SECONDS: Final = 60.0
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
    inside: Inside
    """Faults from inside: requests refused, late or lost by API; listeners that refuse; failpoints."""
    has_links: bool
    _faults: list[history.Fault] = field(repr=False)
    _notes: dict[int, str] = field(default_factory=dict, repr=False)
    """Consequences of a fault, by its id."""

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
    ) -> "KvorumCluster":
        """Make a cluster in an empty folder, start it, and wait until it is healthy.

        The first `controllers` nodes are controllers too (by default up to three). `configs`: by Kafka's keys, for all
        nodes; `node_configs`: {node: its own}. `links`: put a proxy on every link. Raises ValueError and ConfigError
        (invalid arguments), NoToxiproxy (with the remedy), LabError.
        """
        faults: list[history.Fault] = []
        shape = LabShape(
            brokers=brokers,
            controllers=min(CONTROLLERS_MAX, brokers) if controllers is None else controllers,
            configs={**TEST_CONFIGS, **inside_configs(folder), **texts_of(configs or {})},
            node_configs={node: texts_of(own) for node, own in (node_configs or {}).items()},
        )
        network = "proxies" if links else "plain"
        lab = Lab.create(os.path.join(folder, "cluster"), shape, network=network, on_fault=faults.append)  # type: ignore[arg-type]
        try:
            lab.wait_until_healthy()
            inside = Inside.of(lab.plan.cluster, lab.register)
        except BaseException:
            lab.close()
            raise
        return cls(folder=folder, lab=lab, inside=inside, has_links=links, _faults=faults)

    def close(self) -> None:
        """Kill every process and give everything back. Idempotent."""
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

    def create_topic(
        self, topic: str, partitions: int = 1, replicas: int | None = None, configs: Mapping[str, object] | None = None
    ) -> None:
        """Create a topic and wait until each partition has a leader; with up to three replicas if not given.

        Raises KafkaException as the admin client does (TOPIC_ALREADY_EXISTS), LabError.
        """
        count = min(REPLICAS_MAX, len(self.nodes)) if replicas is None else replicas
        topics.create(self.lab.direct_bootstrap, topic, partitions, count, texts_of(configs or {}))
        for partition in range(partitions):
            self.lab.leader_of(topic, partition)

    def wait_for_lag(
        self, group: str, topic: str, at_most: int = 0, timeout_seconds: float = topics.LAG_SECONDS
    ) -> int:
        """Wait until a consumer group's lag in a topic is at most `at_most` offsets; return the lag.

        A partition without a committed offset counts in full. Raises LabError with the lag of each partition.
        """
        return topics.wait_for_lag(self.lab.direct_bootstrap, group, topic, at_most, timeout_seconds)

    # Processes. A stopped node stays down until `restart` or `heal`.

    def kill(self, node: str) -> Injected:
        """kill -9 all processes of a node."""
        return self._taking_away(node, self.lab.kill)

    def terminate(self, node: str) -> Injected:
        """Shut a node down in order."""
        return self._taking_away(node, self.lab.terminate)

    def pause(self, node: str) -> Injected:
        """Suspend all processes of a node (SIGSTOP): they neither respond nor close a connection."""
        return self._taking_away(node, self.lab.pause)

    def _taking_away(self, node: str, fault: Callable[[str], Injected]) -> Injected:
        """Start a fault; record which partitions had their only replica on that node."""
        alone = self._only_on(node)
        injected = fault(node)
        if alone:
            self._notes[injected.id] = (
                f"{topics.listed(alone)} had its only replica on {node} and has no leader without it: "
                "create topics with more replicas to survive this"
            )
        return injected

    def _only_on(self, node: str) -> list[str]:
        if node not in self.nodes:
            return []
        node_id = self.lab.id_of(node)
        found = self.lab.observer.partitions(AT_ONCE_MS)
        return sorted(name for name, view in found.items() if view.replicas == (node_id,))

    def resume(self, node: str) -> None:
        """Resume a paused node."""
        self.lab.resume(node)

    def restart(self, node: str) -> None:
        """Start a node that is down, or shut it down in order and start it. Raises LabError."""
        if node in self.lab.processes.running():
            self.lab.restart(node)
            return
        outcome = self.lab.start(node, wait_seconds=START_SECONDS)
        if outcome.get(node) != READY:
            raise LabError(f"{node} did not start: {outcome.get(node)}")

    # Links; the cluster is made with links=True.

    def cut(self, a: str, b: str) -> Injected:
        """Cut two nodes, or a node and "clients", off from each other."""
        self._need_links("cut")
        return self.lab.cut(a, b)

    def cut_one_way(self, a: str, b: str) -> Injected:
        """Drop all that `a` sends to `b`."""
        self._need_links("cut_one_way")
        return self.lab.cut_one_way(a, b)

    def slow(self, a: str, b: str, ms: int) -> Injected:
        """Delay everything between two parties by this time, in each direction."""
        self._need_links("slow")
        return self.lab.slow(a, b, ms)

    def isolate(self, node: str) -> Injected:
        """Cut a node off from all others and from the clients; it lives on."""
        self._need_links("isolate")
        return self.lab.isolate(node)

    def _need_links(self, verb: str) -> None:
        if not self.has_links:
            raise NoLinks(
                f"{verb} needs proxies on the links: mark the test with @pytest.mark.kvorum(links=True), "
                "or run pytest with --kvorum-links"
            )

    # The end of it all.

    @property
    def is_touched(self) -> bool:
        """Whether any fault is in force, or a node is down."""
        return bool(self.lab.register.in_force()) or len(self.lab.processes.running()) < len(self.nodes)

    def heal(self) -> None:
        """End every fault, and start every node that is down; see `wait_until_healthy`. Raises NotStarted."""
        for fault in self.lab.register.in_force():
            if fault.kind not in DOWN_KINDS:
                fault.end()
        self.lab.processes.started(())

    def recover(self, timeout_seconds: float = HEALTHY_SECONDS) -> None:
        """End every fault, start every node, wait until all is well. Raises NotStarted, LabError."""
        self.heal()
        self.wait_until_healthy(timeout_seconds)

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
