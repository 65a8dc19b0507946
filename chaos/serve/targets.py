"""Resolution of a fault's targets at its begin: names, or selectors as in scenarios.

    node-1, node-1/broker, clients, brokers, controllers                names
    active-controller, standby-controllers, random, all, not node-1     words, each also with /broker or /controller
    leader orders-0, followers orders-0, follower 2 orders-0, in-sync orders-0
    coordinator GROUP, transaction-coordinator ID

Selectors are resolved once, without a wait: if there is no leader now, the target is empty.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

from kvorum.chaos.faults.observer import AT_ONCE_MS, NO_LEADER, PartitionView
from kvorum.chaos.faults.topology import CLIENTS, CONTROLLER
from kvorum.chaos.scenario.targets import Targets, UnknownTarget
from kvorum.chaos.serve.served import Served
from kvorum.client.wire.cluster_client import ClusterClient, ResourceType, Unreachable
from kvorum.network.addresses import parse_bootstrap
from kvorum.protocol.errors import KafkaError

SEPARATOR: Final = ","
"""Separator of the names in one target."""
LONE: Final = (["all"], ["random"], ["active-controller"], ["standby-controller"], ["standby-controllers"])
"""Complete selectors; others have an argument."""
KEYED: Final = (["coordinator"], ["transaction-coordinator"])
"""Their arguments may have any character in their names."""
ASK_MS: Final = 5_000
MIN_ISR: Final = "min.insync.replicas"


class NotNow(Exception):
    """A selector that matches nothing at present: no leader, no active controller, or no response."""


@dataclass(slots=True)
class View:
    """Visible state of a served cluster at one moment (scenario.targets.Seen)."""

    served: Served
    _partitions: Mapping[str, PartitionView] | None = field(default=None, init=False)

    @property
    def nodes(self) -> list[str]:
        """All nodes."""
        return self.served.nodes

    def partitions(self) -> dict[str, PartitionView]:
        """Return {"orders-0": leader, ISR, ...}."""
        if self._partitions is None:
            self._partitions = self.served.observer.partitions()
        return dict(self._partitions)

    def leader_of(self, topic: str, partition: int, timeout_seconds: float = 0.0) -> str:
        """Return the leader's node. Raises NotNow, UnknownTarget."""
        view = self.partition(f"{topic}-{partition}")
        if view.leader == NO_LEADER:
            raise NotNow(f"{topic}-{partition} has no leader now")
        return self.name_of(view.leader)

    def active_controller(self, timeout_seconds: float = 0.0) -> str:
        """Return the active controller's node. Raises NotNow."""
        found = self.served.observer.active_controller()
        if found is None:
            raise NotNow("there is no active controller now")
        return self.name_of(found)

    def active_controller_now(self) -> str | None:
        """Return it if a node answers at once, else None."""
        found = self.served.observer.active_controller(AT_ONCE_MS)
        return None if found is None else self.name_of(found)

    def name_of(self, node_id: int) -> str:
        """Return a node's name. Raises UnknownTarget."""
        for node in self.served.cluster.plan.nodes:
            if int(node.properties["node.id"]) == node_id:
                return node.name
        raise UnknownTarget(f"node {node_id} does not exist")

    def partition(self, name: str) -> PartitionView:
        """Return a partition as the best informed broker has it. Raises NotNow, UnknownTarget."""
        found = self.partitions()
        if name not in found:
            raise NotNow(f"no responding broker has a partition {name!r}")
        return found[name]

    def min_isr(self, topic: str) -> int:
        """Return a topic's min.insync.replicas in force. Raises NotNow."""

        async def read() -> int:
            cluster = ClusterClient(parse_bootstrap(self.served.observed), timeout_ms=ASK_MS)
            try:
                found = await cluster.describe_configs(ResourceType.TOPIC, topic)
            finally:
                await cluster.close()
            return next(int(each.value or "1") for each in found if each.name == MIN_ISR)

        try:
            found: int = self.served.observer.run(read)
        except (KafkaError, Unreachable) as error:
            raise NotNow(f"{MIN_ISR} of {topic} is not available: {error}") from error
        return found


def are_words(target: str) -> bool:
    """Return whether a target has to be looked up."""
    words = target.partition("/")[0].split()
    return len(words) > 1 or words[:1] in LONE


def resolved(served: Served, target: str, rng: Random) -> list[str]:
    """Return the names that a target selects; plain names unchanged. Raises NotNow, UnknownTarget."""
    if SEPARATOR in target and target.split()[:1] not in KEYED:
        found = [name for part in target.split(SEPARATOR) for name in resolved(served, part, rng)]
        return list(dict.fromkeys(found))
    if not are_words(target):
        return [target.strip()]

    def controllers() -> list[str]:
        return [node.name for node in served.cluster.plan.nodes if CONTROLLER in node.roles]

    try:
        found = Targets(View(served), rng, controllers, (CLIENTS,)).resolve(target)
    except IndexError as error:  # no candidate
        raise NotNow(f"{target!r} matches no node now") from error
    if not found:
        raise NotNow(f"{target!r} matches no node now")
    return found
