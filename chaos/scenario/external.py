"""An external cluster: faults by hooks, state from Metadata and DescribeQuorum.

Hooks are shell commands; `{node}` in them is the node's name (`node-ID`), `{id}` its id. Without hooks only an operator
injects faults, and load and checker run nevertheless.
"""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import KafkaException

from kvorum.chaos import history
from kvorum.chaos.client_access import ClientAccess
from kvorum.chaos.faults.events import ActiveFault, FaultRegister
from kvorum.chaos.faults.observer import (
    AT_ONCE_MS,
    NO_LEADER,
    Observer,
    PartitionView,
    in_a_thread,
    replica_problems,
)
from kvorum.chaos.faults.target_cluster import LEADER_SECONDS, LabError, wait_for
from kvorum.chaos.faults.topology import BROKER
from kvorum.chaos.workload.admin import admin_client
from kvorum.network.addresses import Address

HOOKS: Final = ("kill", "start", "pause", "resume")
HOOK_SECONDS: Final = 120.0
ASK_SECONDS: Final = 10.0
HEALTHY_SECONDS: Final = 120.0
OUTPUT_SHOWN: Final = 300


class HookError(LabError):
    """A hook ended with an error, or is missing: its name and its output."""


@dataclass(slots=True)
class ProcessHooks:
    """The faults on processes for which there are hooks."""

    ids: Mapping[str, int]
    """{"node-1": 1}."""
    hooks: Mapping[str, str]
    register: FaultRegister

    def kill(self, name: str, *, story: str = "") -> ActiveFault:
        """kill -9 a node with its hook; it ends with the start hook."""
        return self._begin("kill", name, story or f"kill -9 {name}", "start")

    def pause(self, name: str, *, story: str = "") -> ActiveFault:
        """Stop a node in time by its hook; it ends by the resume hook."""
        return self._begin("pause", name, story or f"{name} paused", "resume")

    def start(self, *names: str) -> None:
        """Start nodes (all that were killed, when none is named)."""
        for fault in self.register.in_force("kill"):
            if not names or fault.targets[0] in names:
                fault.end()

    def resume(self, name: str) -> None:
        """Resume a node."""
        for fault in self.register.in_force("pause", target=name):
            fault.end()

    def _begin(self, verb: str, name: str, story: str, end: str) -> ActiveFault:
        self._hook(end)
        node = name.partition("/")[0]
        return self.register.begin(
            verb, [node], story, do=lambda: self._run(verb, node), undo=lambda: self._run(end, node)
        )

    def _hook(self, verb: str) -> str:
        if verb not in self.hooks:
            raise HookError(f"no hook to {verb} a node: give --{verb}-hook COMMAND")
        return self.hooks[verb]

    def _run(self, verb: str, name: str) -> None:
        command = self._hook(verb).replace("{node}", name).replace("{id}", str(self.ids[name]))
        try:
            done = subprocess.run(
                command,
                shell=True,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=HOOK_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise HookError(f"{command} did not end within {HOOK_SECONDS:g} s") from error
        if done.returncode:
            raise HookError(f"{command} ended with {done.returncode}: {(done.stderr or done.stdout)[-OUTPUT_SHOWN:]}")


@dataclass(slots=True)
class ExternalCluster:
    """See the module; created with `connect`."""

    access: ClientAccess
    processes: ProcessHooks
    register: FaultRegister
    observer: Observer
    topics: frozenset[str] = frozenset()
    """Time for the run's own topics; the health of others does not matter."""
    addresses: Mapping[int, Address] = field(default_factory=dict)
    """{node id: where the broker is reached}."""
    has_quorum: bool = False
    """Brokers return a metadata quorum (KRaft), and so its leader."""

    @classmethod
    def connect(
        cls,
        access: ClientAccess,
        hooks: Mapping[str, str],
        register: FaultRegister,
        topics: frozenset[str],
    ) -> "ExternalCluster":
        """Find the brokers. Raises LabError where none answers."""
        try:
            metadata = admin_client(access).list_topics(timeout=ASK_SECONDS)
        except KafkaException as error:
            raise LabError(f"no broker responds at {access.bootstrap}: {error.args[0].str()}") from error
        addresses = {each.id: (str(each.host), each.port) for each in metadata.brokers.values()}
        ids = {f"node-{each}": each for each in sorted(addresses)}
        # Brokers forward DescribeQuorum to the active controller, so they replace the controllers here.
        security = access.security()
        observer = Observer(addresses, addresses, in_a_thread, security, security)
        has_quorum = observer.active_controller() is not None
        processes = ProcessHooks(ids, dict(hooks), register)
        return cls(access, processes, register, observer, topics, addresses, has_quorum)

    @property
    def direct_access(self) -> ClientAccess:
        """The same: no fault of links touches it."""
        return self.access

    def access_of(self, group: str) -> ClientAccess:
        """Return how a group of clients reaches the cluster."""
        return self.access

    @property
    def controllers(self) -> list[str]:
        """The nodes that may be the active controller."""
        return self.nodes

    @property
    def nodes(self) -> list[str]:
        """All brokers."""
        return list(self.processes.ids)

    def name_of(self, node_id: int) -> str:
        """Return a broker's name."""
        return f"node-{node_id}"

    def id_of(self, name: str) -> int:
        """Return a broker's id. Raises KeyError."""
        return self.processes.ids[name]

    def history_shape(self) -> history.ClusterShape:
        """Return the cluster according to Metadata."""
        return history.ClusterShape(
            nodes={name: history.NodeShape(id=each, roles=[BROKER]) for name, each in self.processes.ids.items()}
        )

    def partitions(self) -> dict[str, PartitionView]:
        """Return {"orders-0": leader, ISR, ...} as the best informed broker has them."""
        return self.observer.partitions()

    def leader_of(self, topic: str, partition: int, timeout_seconds: float = LEADER_SECONDS) -> str:
        """Return the node that leads. Raises LabError where none does in time."""

        def leader() -> str | None:
            view = self.partitions().get(f"{topic}-{partition}")
            return None if view is None or view.leader == NO_LEADER else self.name_of(view.leader)

        return wait_for(leader, lambda: f"{topic}-{partition} has no leader", timeout_seconds)

    def active_controller(self, timeout_seconds: float = LEADER_SECONDS) -> str:
        """Return the node of the active controller: the quorum's leader, or Metadata's controller without a quorum.

        Raises LabError if there is none in time, or if it is not a broker: hooks support only brokers.
        """

        def controller() -> str | None:
            if self.has_quorum:
                return self.active_controller_now()
            try:
                found = admin_client(self.access).list_topics(timeout=ASK_SECONDS).controller_id
            except KafkaException:
                return None
            return None if found < 0 else self.name_of(found)

        name = wait_for(controller, lambda: "there is no active controller", timeout_seconds)
        if name not in self.nodes:
            raise LabError(
                f"the active controller is {name}, which is not a broker: hooks apply to {', '.join(self.nodes)}"
            )
        return name

    def active_controller_now(self) -> str | None:
        """Return the quorum's leader if a broker returns it at once, else None."""
        found = self.observer.active_controller(AT_ONCE_MS)
        return None if found is None else self.name_of(found)

    def recover(self, timeout_seconds: float = HEALTHY_SECONDS) -> None:
        """End every fault and wait until all is well. Raises LabError."""
        for fault in self.register.in_force():
            fault.end()
        self.wait_until_healthy(timeout_seconds)

    def wait_until_healthy(self, timeout_seconds: float = HEALTHY_SECONDS) -> None:
        """Wait until all brokers answer and the run's partitions are fully in sync. Raises LabError."""

        ailments: list[str] = []

        def is_healthy() -> bool:
            ailments[:] = self._ailments()
            return not ailments

        wait_for(is_healthy, lambda: "; ".join(ailments), timeout_seconds)

    def _ailments(self) -> list[str]:
        views = {name: view for name, view in self.partitions().items() if name.rpartition("-")[0] in self.topics}
        missing = sorted(self.topics - {name.rpartition("-")[0] for name in views})
        return replica_problems(views) + [f"topic {topic} does not exist" for topic in missing]
