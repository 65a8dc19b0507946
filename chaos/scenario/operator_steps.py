"""Steps that are no faults but requests of an operator: configs, quotas, elections, reassignments, features, voters.

Each is an operation of the history.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it means to export all of them
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from kvorum.chaos.faults.lab import Lab
from kvorum.chaos.faults.shape import CONTROLLER_LISTENER
from kvorum.chaos.faults.target_cluster import LabError
from kvorum.chaos.faults.topology import CONTROLLER
from kvorum.chaos.history import Info, Ok, OperationValue
from kvorum.chaos.scenario import operator_requests
from kvorum.chaos.scenario.external import ExternalCluster
from kvorum.chaos.scenario.models import Step
from kvorum.chaos.scenario.operator_requests import RequestError
from kvorum.chaos.scenario.targets import Targets, no_leader
from kvorum.chaos.workload.admin import REQUEST_SECONDS, admin_client
from kvorum.chaos.workload.recorder import Recorder
from kvorum.runtime.listeners import split_address

ANSWER_SECONDS: Final = 30.0


class StepError(Exception):
    """A step that this cluster does not support, or whose condition was not met in time."""


@dataclass(slots=True)
class OperatorSteps:
    """The requests of one run."""

    cluster: Lab | ExternalCluster
    targets: Targets
    recorder: Recorder

    def do(self, step: Step, found: Sequence[str]) -> None:
        """Send an operator's request, until it is done. Raises StepError, LabError, UnknownTarget."""
        access, partition = self.cluster.access, step.partition
        nodes = [node_of(each) for each in found]
        match step.do:
            case "alter-topic":
                self._alter(ResourceType.TOPIC, step.topic, step)
            case "alter-broker":
                for node in nodes:
                    self._alter(ResourceType.BROKER, str(self.lab(step).id_of(node)), step)
            case "alter-quota":
                words = [f"{key}={each}" for key, each in (step.quota | step.configs).items()]
                self.record([step.do, *words], lambda: operator_requests.alter_quota(access, step.quota, step.configs))
            case "elect-unclean" | "elect-preferred":
                self._elect(step)
            case "move-log-dir":
                for node in nodes:
                    self._move(self.lab(step), node, step)
            case "reassign":
                names = [node_of(each) for each in self.targets.resolve(step.replicas)]
                ids = [self.cluster.id_of(name) for name in names]
                self.record([step.do, partition, *names], lambda: operator_requests.reassign(access, partition, ids))
            case "cancel-reassignment":
                self.record([step.do, partition], lambda: operator_requests.reassign(access, partition, None))
            case "features":
                levels = [f"{name}={level}" for name, level in step.levels.items()]
                self.record([step.do, *levels], lambda: operator_requests.set_levels(access, step.levels))
            case _:
                for node in nodes:
                    self._change_voter(self.lab(step), step.do, node)

    def lab(self, step: Step) -> Lab:
        """Return the cluster as a lab. Raises StepError."""
        if not isinstance(self.cluster, Lab):
            raise StepError(f"do: {step.do} needs a lab cluster")
        return self.cluster

    def _alter(self, kind: ResourceType, name: str, step: Step) -> None:
        value: OperationValue = ["alter", name, *(f"{key}={each}" for key, each in step.configs.items())]
        entries = [
            ConfigEntry(key, each, incremental_operation=AlterConfigOpType.SET) for key, each in step.configs.items()
        ]
        resource = ConfigResource(kind, name, incremental_configs=entries)
        client = admin_client(self.cluster.access)
        self.record(
            value,
            lambda: client.incremental_alter_configs([resource], request_timeout=REQUEST_SECONDS)[resource].result(
                ANSWER_SECONDS
            ),
        )

    def _move(self, lab: Lab, node: str, step: Step) -> None:
        """Request the move of a broker's replica to another log directory; it runs during the scenario."""
        path, access, node_id = lab.directories.path(node, step.directory), lab.access, lab.id_of(node)
        value: OperationValue = [step.do, step.partition, f"{node}:{step.directory}"]
        self.record(value, lambda: operator_requests.move_replica(access, step.partition, node_id, path))

    def _elect(self, step: Step) -> None:
        """Request elections: of one partition, or (`all`) of all without a leader. A leader that is there is fine."""
        access, unclean = self.cluster.access, step.do == "elect-unclean"
        names = [step.partition]
        if step.partition == "all":
            names = [name for name, view in self.cluster.partitions().items() if no_leader(view)]
        if names:
            value: OperationValue = [step.do.replace("elect-", "elect-leaders-"), *names]
            self.record(value, lambda: operator_requests.elect_leaders(access, names, unclean=unclean))

    def _change_voter(self, lab: Lab, verb: str, name: str) -> None:
        """Add a controller to the voters, with the directory it has now; or remove it, with the one that votes."""
        access, node_id = self.cluster.access, lab.id_of(name)
        if verb == "add-controller":
            directory, address = lab.disks.identity(name), split_address(lab.plan.direct[f"{name}/{CONTROLLER}"])
            assert address is not None, "the lab chose it"
            endpoints = [(CONTROLLER_LISTENER, *address)]
            self.record([verb, name], lambda: operator_requests.add_controller(access, node_id, directory, endpoints))
            return
        known = lab.observer.voters().get(node_id)
        if known is None:
            raise LabError(f"do: {verb}: {name} is not a voter")
        self.record([verb, name], lambda: operator_requests.remove_controller(access, node_id, known))

    def record(self, value: OperationValue, request: Callable[[], object]) -> None:
        """Execute a metadata operation of the scenario; the history records it like any other. Raises StepError."""
        process = self.recorder.process("scenario")
        op = self.recorder.invoke(process, "admin", value)
        try:
            request()
        except (KafkaException, RequestError) as error:
            self.recorder.complete(op, Info, error=str(error))
            raise StepError(f"{value}: {error}") from error
        self.recorder.complete(op, Ok)


def node_of(name: str) -> str:
    """Return the node of a name."""
    return name.partition("/")[0]
