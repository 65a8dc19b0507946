"""Resolution of a step's target when the step begins."""

from collections.abc import Callable
from random import Random
from typing import Final

from kvorum.broker.coordinator.runtime.placing import partition_for
from kvorum.chaos.faults.observer import NO_LEADER, PartitionView
from kvorum.chaos.faults.target_cluster import LEADER_SECONDS, TargetCluster
from kvorum.chaos.scenario.external import ExternalCluster
from kvorum.protocol.topic_names import OFFSETS_TOPIC, TRANSACTION_TOPIC

ANY: Final = "any"
"""Any group or transactional id."""
GROUPS: Final = ("brokers", "controllers")


class UnknownTarget(ValueError):
    """A target that matches nothing here."""


class Targets:
    """Resolves targets; remembers those that steps name."""

    def __init__(
        self,
        cluster: TargetCluster | ExternalCluster,
        rng: Random,
        controllers: Callable[[], list[str]],
        links: tuple[str, ...],
        timeout_seconds: float = LEADER_SECONDS,
    ) -> None:
        """`links`: names that are only ends of links (client groups). Leaders are waited for until the timeout."""
        self._cluster = cluster
        self.rng = rng
        self._timeout_seconds = timeout_seconds
        self.controllers = controllers
        self._links = links
        self._targets: dict[str, list[str]] = {}

    def remember(self, name: str, found: list[str]) -> None:
        """Assign a `name` to these targets."""
        self._targets[name] = [each.partition("/")[0] for each in found]

    def resolve(self, target: str | tuple[str, ...]) -> list[str]:
        """Return the nodes (or processes, or groups) of a target, each once. Raises UnknownTarget."""
        if not isinstance(target, str):
            return list(dict.fromkeys(each for part in target for each in self.resolve(part)))
        words, slash, role = target.partition("/")
        found = self._nodes(words.split())
        if role and role not in ("broker", "controller"):
            raise UnknownTarget(f"{target!r}: a process is NODE/broker or NODE/controller")
        return [f"{each}{slash}{role}" for each in found]

    def _nodes(self, words: list[str]) -> list[str]:
        match words:
            case ["all"]:
                return list(self._cluster.nodes)
            case ["random"]:
                return [self.rng.choice(self._cluster.nodes)]
            case ["active-controller"]:
                return [self._cluster.active_controller(self._timeout_seconds)]
            case ["standby-controller"]:
                active = self._cluster.active_controller(self._timeout_seconds)
                return [self.rng.choice([each for each in self.controllers() if each != active])]
            case ["standby-controllers"]:
                active = self._cluster.active_controller(self._timeout_seconds)
                return [each for each in self.controllers() if each != active]
            case ["leader", partition]:
                return [self._leader(partition)]
            case ["follower", partition]:
                return self._followers(partition)[:1]
            case ["follower", number, partition] if number.isdecimal():
                return self._followers(partition)[int(number) - 1 :][:1]
            case ["followers", partition]:
                return self._followers(partition)
            case ["in-sync", partition]:
                return [self._cluster.name_of(each) for each in self._view(partition).isr]
            case ["coordinator", key]:
                return [self._coordinator(OFFSETS_TOPIC, key)]
            case ["transaction-coordinator", key]:
                return [self._coordinator(TRANSACTION_TOPIC, key)]
            case ["not", *rest]:
                left_out = self._nodes(rest)
                return [each for each in self._cluster.nodes if each not in left_out]
            case [name] if name in self._targets:
                return self._targets[name]
            case [name] if name in (*self._cluster.nodes, *GROUPS, *self._links):
                return [name]
        known = ", ".join([*self._cluster.nodes, *self._targets, *self._links])
        raise UnknownTarget(
            f"{' '.join(words)!r} is not a target; use one of {known}, all, random, active-controller, "
            "standby-controller, leader, follower, followers, in-sync with a partition, coordinator with a group, "
            "transaction-coordinator with an id"
        )

    def _leader(self, partition: str) -> str:
        topic, number = split_partition(partition)
        return self._cluster.leader_of(topic, number, self._timeout_seconds)

    def _coordinator(self, topic: str, key: str) -> str:
        """Return the leader of the coordinator partition of a group or a transactional id; `any`: of the first one."""
        count = sum(name.rpartition("-")[0] == topic for name in self._cluster.partitions())
        if count == 0:
            raise UnknownTarget(f"{key!r} has no coordinator yet: {topic} does not exist")
        return self._cluster.leader_of(topic, 0 if key == ANY else partition_for(key, count), self._timeout_seconds)

    def _followers(self, partition: str) -> list[str]:
        """Return the replicas that do not lead, those in sync first."""
        leader = self._leader(partition)
        view = self._view(partition)
        ordered = sorted(view.replicas, key=lambda each: (each not in view.isr, each))
        return [name for each in ordered if (name := self._cluster.name_of(each)) != leader]

    def _view(self, partition: str) -> PartitionView:
        found = self._cluster.partitions().get(partition)
        if found is None:
            raise UnknownTarget(f"partition {partition!r} does not exist")
        return found


def split_partition(partition: str) -> tuple[str, int]:
    """Return topic and number of a name like "orders-0". Raises UnknownTarget."""
    topic, _, number = partition.rpartition("-")
    if not topic or not number.isdecimal():
        raise UnknownTarget(f"{partition!r} is not a partition (TOPIC-NUMBER)")
    return topic, int(number)


def no_leader(view: PartitionView | None) -> bool:
    """Return whether a partition has no leader."""
    return view is None or view.leader == NO_LEADER
