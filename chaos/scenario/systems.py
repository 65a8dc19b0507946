"""The cluster of a run: created by the lab for this run, or external."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from kvorum.chaos.client_access import ClientAccess
from kvorum.chaos.faults.events import FaultRegister, OnFault
from kvorum.chaos.faults.inside_faults import inside_configs
from kvorum.chaos.faults.lab import CHILD_MODULE, LAB_MEMBER, Lab
from kvorum.chaos.faults.shape import LabShape
from kvorum.chaos.faults.target_cluster import LabError
from kvorum.chaos.faults.topology import BROKER
from kvorum.chaos.scenario.external import ExternalCluster
from kvorum.chaos.scenario.models import Scenario
from kvorum.chaos.workload.admin import REQUEST_SECONDS, admin_client
from kvorum.chaos.workload.follower import MetadataFollower
from kvorum.chaos.workload.inspect import write_images, write_replicas
from kvorum.chaos.workload.recorder import Recorder
from kvorum.chaos.workload.sampler import ControllerWatch, MetadataSampler
from kvorum.runtime.listeners import split_address

PROFILES: Final = {
    "fast": {
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "replica.lag.time.max.ms": "2000",
        "replica.fetch.wait.max.ms": "500",
    },
    "default": {},
}
DELETE_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalAddresses:
    """Addresses and hooks of an external cluster."""

    access: ClientAccess
    hooks: Mapping[str, str] = field(default_factory=dict)
    """{kill, start, pause, resume: shell command}."""
    keep_topics: bool = False


class Follower(Protocol):
    """Writes the cluster's metadata into the history as it changes."""

    def start(self) -> None:
        """Begin."""
        ...

    def stop(self) -> None:
        """End. Idempotent."""
        ...


class LabSystem:
    """A cluster made for the run."""

    def __init__(
        self,
        scenario: Scenario,
        folder: Path,
        seed: int,
        on_fault: OnFault,
        seconds: Callable[[], float],
        *,
        child_module: str = CHILD_MODULE,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Make it and start it. Raises what Lab.create raises, which see for the last two."""
        cluster = scenario.cluster
        topics = scenario.every_topic().values()
        self._replicas_expected = sum(topic.partitions * topic.replication_factor for topic in topics)
        needs_inside = any(step.fault is not None and step.fault.needs == "inside" for step in scenario.steps)
        inside = inside_configs(str(folder)) if needs_inside else {}
        shape = LabShape(
            brokers=cluster.brokers,
            controllers=cluster.controllers,
            combined=cluster.combined,
            log_dirs=cluster.log_dirs,
            groups=cluster.groups,
            configs={**PROFILES[cluster.profile], **inside, **cluster.configs},
            node_configs=cluster.node_configs,
            secure=cluster.secure,
            mechanism=cluster.mechanism,
        )
        self.cluster = Lab.create(
            str(folder / "cluster"),
            shape,
            network=cluster.network,
            on_fault=on_fault,
            seconds=seconds,
            seed=seed,
            small_disks=cluster.small_disks,
            child_module=child_module,
            environment=environment,
        )

    def within(self, group: str | None = None) -> AbstractContextManager[None]:
        """Run in the network of a group of clients, or (without a name) in one that reaches the brokers' own addresses.

        Applies to the calling thread and threads that it starts: with namespaces both are separate networks.
        """
        network = self.cluster.namespaces
        return nullcontext() if network is None else network.inside(LAB_MEMBER if group is None else group)

    def followers(self, recorder: Recorder) -> list[Follower]:
        """Return a follower of the metadata log, and the observer of the active controller."""
        return [
            MetadataFollower(brokers_of(self.cluster), recorder, self.cluster.observer.broker_security),
            ControllerWatch(self._active_controller, recorder),
        ]

    def _active_controller(self) -> str | None:
        found = self.cluster.observer.active_controller()
        return None if found is None else self.cluster.name_of(found)

    def unexpected_exceptions(self) -> list[str]:
        """Return the exceptions in the nodes' logs that no handler expected."""
        return self.cluster.cluster.unexpected_exceptions()

    def compare(self, recorder: Recorder, high_watermarks: Mapping[str, int]) -> list[str]:
        """Stop all nodes in order and read their disks. Raises Unreadable, ClusterError, OSError."""
        lab = self.cluster
        late = lab.cluster.stop()
        names = [party.partition("/")[0] for party in lab.plan.topology.parties.processes(BROKER)]
        replicas = write_replicas(
            recorder, {lab.id_of(name): lab.disks.directories(name, BROKER) for name in names}, high_watermarks
        )
        roles = [(name, role) for name, (_, found) in lab.shape.nodes().items() for role in found]
        homes = {f"{name}/{role}": lab.disks.directories(name, role)[0] for name, role in roles}
        images = write_images(recorder, homes)
        failures = [f"{', '.join(late)} did not shut down in time and had to be killed"] if late else []
        if replicas < self._replicas_expected:
            failures.append(f"only {replicas} of {self._replicas_expected} replicas could be compared")
        if images < len(roles):
            failures.append(f"only {images} of {len(roles)} metadata images could be compared")
        return failures

    def close(self) -> None:
        """Kill everything."""
        self.cluster.close()


class ExternalSystem:
    """A cluster outside the lab."""

    def __init__(
        self, scenario: Scenario, elsewhere: ExternalAddresses, on_fault: OnFault, seconds: Callable[[], float]
    ) -> None:
        """Connect. Raises KafkaException; LabError if a topic of the run exists already."""
        topics = frozenset(scenario.every_topic())
        register = FaultRegister(on_fault, seconds)
        self._elsewhere = elsewhere
        self._topics = topics
        self.cluster = ExternalCluster.connect(elsewhere.access, elsewhere.hooks, register, topics)
        there = topics & set(admin_client(elsewhere.access).list_topics(timeout=REQUEST_SECONDS).topics)
        if there:
            raise LabError(f"{', '.join(sorted(there))}: these topics exist already; a run requires new topics")

    def within(self, group: str | None = None) -> AbstractContextManager[None]:
        """Stay in this network."""
        return nullcontext()

    def followers(self, recorder: Recorder) -> list[Follower]:
        """Return samplers: the metadata log of others is not ours to read."""
        return [
            MetadataSampler(self.cluster.addresses, self._topics, recorder, self.cluster.observer.broker_security),
            ControllerWatch(self.cluster.active_controller_now, recorder),
        ]

    def unexpected_exceptions(self) -> list[str]:
        """Return none: the logs are elsewhere."""
        return []

    def compare(self, recorder: Recorder, high_watermarks: Mapping[str, int]) -> list[str]:
        """Report that the disks are not accessible."""
        recorder.note("the disks of this cluster are not accessible: replicas are not compared")
        return []

    def close(self) -> None:
        """Delete the run's topics, unless they are kept."""
        if not self._elsewhere.keep_topics:
            client = admin_client(self._elsewhere.access)
            there = sorted(self._topics & set(client.list_topics(timeout=REQUEST_SECONDS).topics))
            for future in client.delete_topics(there, request_timeout=REQUEST_SECONDS).values() if there else ():
                future.result(DELETE_SECONDS)


System: TypeAlias = LabSystem | ExternalSystem
"""The cluster of a run, with its network, its followers and its disks."""


def brokers_of(lab: Lab) -> dict[int, tuple[str, int]]:
    """Return {node id: address} of the brokers' own listeners."""
    found: dict[int, tuple[str, int]] = {}
    for party in lab.plan.topology.parties.processes(BROKER):
        address = split_address(lab.plan.direct[party])
        assert address is not None, "the lab chose it"
        found[lab.id_of(party.partition("/")[0])] = address
    return found
