"""Operator steps, and the conditions of their waits: reassignments, features, voters of the quorum."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from kvorum.chaos.faults.lab import Lab, LabError
from kvorum.chaos.faults.observer import PartitionView
from kvorum.chaos.faults.shape import CONTROLLER_LISTENER
from kvorum.chaos.faults.topology import CONTROLLER
from kvorum.chaos.history import OperationValue
from kvorum.chaos.scenario import operating
from kvorum.chaos.scenario.models import Condition, Step
from kvorum.chaos.scenario.targets import Targets
from kvorum.runtime.listeners import split_address

OPERATIONS: Final = frozenset({"reassign", "cancel-reassignment", "features", "add-controller", "remove-controller"})
"""Their verbs: they break nothing."""
PARTITIONS_NAMED_MAX: Final = 5


class Operated(Protocol):
    """Operator requests to the cluster under test."""

    @property
    def bootstrap(self) -> str:
        """bootstrap.servers of clients."""
        ...

    def id_of(self, name: str) -> int:
        """Return a node's id. Raises KeyError."""
        ...

    def partitions(self) -> dict[str, PartitionView]:
        """Return {"orders-0": leader, ISR, ...}."""
        ...


@dataclass(slots=True)
class OperatorSteps:
    """State of one run. `record` writes an operation to the history and executes it."""

    cluster: Operated
    targets: Targets
    record: Callable[[OperationValue, Callable[[], object]], None]

    def do(self, step: Step, found: Sequence[str]) -> None:
        """Send an operator's request, until it is done. Raises the exceptions of `record`, LabError, UnknownTarget."""
        bootstrap, partition = self.cluster.bootstrap, step.partition
        match step.do:
            case "reassign":
                names = [_node(each) for each in self.targets.resolve(step.replicas)]
                ids = [self.cluster.id_of(name) for name in names]
                self.record([step.do, partition, *names], lambda: operating.reassign(bootstrap, partition, ids))
            case "cancel-reassignment":
                self.record([step.do, partition], lambda: operating.reassign(bootstrap, partition, None))
            case "features":
                levels = [f"{name}={level}" for name, level in step.levels.items()]
                self.record([step.do, *levels], lambda: operating.set_levels(bootstrap, step.levels))
            case _:
                for each in found:
                    self._voter(step.do, _node(each))

    def _voter(self, verb: str, name: str) -> None:
        """Add a controller to the voters, with the directory it has now; or remove it, with the one that votes."""
        lab, bootstrap, node_id = self._lab(verb), self.cluster.bootstrap, self.cluster.id_of(name)
        if verb == "add-controller":
            directory, address = lab.disks.identity(name), split_address(lab.plan.direct[f"{name}/{CONTROLLER}"])
            assert address is not None, "the lab chose it"
            endpoints = [(CONTROLLER_LISTENER, *address)]
            self.record([verb, name], lambda: operating.add_controller(bootstrap, node_id, directory, endpoints))
            return
        known = lab.observer.voters().get(node_id)
        if known is None:
            raise LabError(f"do: {verb}: {name} is not a voter")
        self.record([verb, name], lambda: operating.remove_controller(bootstrap, node_id, known))

    def missing(self, wanted: Condition) -> str:
        """Return the missing conditions; empty when all are met."""
        if wanted.reassigned:
            under_way = operating.reassigned(self.cluster.bootstrap) & {*wanted.reassigned}
            if under_way:
                return f"{', '.join(sorted(under_way))} not being reassigned"
        for name in self.targets.resolve(wanted.empty) if wanted.empty else ():
            node_id = self.cluster.id_of(_node(name))
            left = [each for each, view in self.cluster.partitions().items() if node_id in view.replicas]
            if left:
                return f"{name} without replicas: it has {', '.join(sorted(left)[:PARTITIONS_NAMED_MAX])}"
        if wanted.voters is not None:
            voters = self._lab("until: voters").observer.voters()
            if len(voters) != wanted.voters:
                return f"{wanted.voters} voters: {sorted(voters)}"
        return ""

    def _lab(self, what: str) -> Lab:
        if not isinstance(self.cluster, Lab):
            raise LabError(f"{what} needs a lab cluster")
        return self.cluster


def _node(name: str) -> str:
    return name.partition("/")[0]
