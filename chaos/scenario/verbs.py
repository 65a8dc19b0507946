"""Effects of steps on a cluster. A verb returns the faults it began; `for` seconds later they are ended.

Every cluster can be killed, started, paused and resumed; the rest needs one that the lab made.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, Protocol

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it means to export all of them
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from kvorum.chaos.faults.cuts import LINK_KINDS
from kvorum.chaos.faults.events import Injected
from kvorum.chaos.faults.inside import Inside
from kvorum.chaos.faults.lab import Lab
from kvorum.chaos.faults.shape import INTERNAL
from kvorum.chaos.faults.topology import BROKER
from kvorum.chaos.history import Info, Ok, OperationValue
from kvorum.chaos.scenario.models import Condition, Step
from kvorum.chaos.scenario.operating import Refused
from kvorum.chaos.scenario.operator_steps import OPERATIONS, OperatorSteps
from kvorum.chaos.scenario.targets import GROUPS, Seen, Targets, no_leader
from kvorum.chaos.workload.admin import REQUEST_SECONDS, admin_client
from kvorum.chaos.workload.elections import PREFERRED, UNCLEAN, NotElected, elect
from kvorum.chaos.workload.log_dirs import NotMoved, move
from kvorum.chaos.workload.quotas import NotAltered, alter_quota
from kvorum.chaos.workload.recorder import Recorder

POLL_SECONDS: Final = 0.05
ANSWER_SECONDS: Final = 30.0


class CannotDo(Exception):
    """A step that this cluster does not support, or whose condition was not met in time."""


class Breakable(Seen, Protocol):
    """Operations that every cluster under test supports."""

    @property
    def bootstrap(self) -> str:
        """bootstrap.servers of clients."""
        ...

    def id_of(self, name: str) -> int:
        """Return a node's id. Raises KeyError."""
        ...

    def kill(self, name: str, *roles: str, story: str = "") -> Injected:
        """kill -9 a node until it is started."""
        ...

    def start(self, *names: str) -> object:
        """Start nodes that do not run."""
        ...

    def pause(self, name: str, *roles: str, story: str = "") -> Injected:
        """Stop a node in time."""
        ...

    def resume(self, name: str) -> None:
        """Resume it."""
        ...

    def heal(self) -> None:
        """End every fault of links."""
        ...

    def recover(self, timeout_seconds: float = 60.0) -> None:
        """End every fault and wait until all is well."""
        ...

    def wait_until_healthy(self, timeout_seconds: float = 60.0) -> None:
        """Wait until all is well."""
        ...


@dataclass(slots=True)
class Verbs:
    """The verbs of one run."""

    cluster: Breakable
    targets: Targets
    recorder: Recorder
    stopped: Callable[[], bool]
    """Whether the run is to end: waits give up."""
    _begun: dict[str, list[Injected]] = field(default_factory=dict)
    """Last faults of the named steps."""

    @property
    def _operator(self) -> OperatorSteps:
        return OperatorSteps(self.cluster, self.targets, self._operation)

    def do(self, step: Step) -> list[Injected]:
        """Start a step; return the faults that its `for` ends. Raises CannotDo, UnknownTarget and the lab's errors."""
        if step.do in (
            "heal",
            "recover",
            "kill-all",
            "start",
            "wait",
            "alter-topic",
            "alter-quota",
            "rolling-restart",
        ) or (step.do.startswith("elect-")):
            return self._whole(step)
        found = self.targets.resolve(step.target) if step.target else []
        if step.name and found:
            self.targets.remember(step.name, found)
        if step.do in OPERATIONS:
            self._operator.do(step, found)
            return []
        began = self._pieces(found, step) if step.do in ("kill", "pause", "resume") else self._by_lab(step, found)
        if step.name:
            self._begun[step.name] = began
        return began

    def _whole(self, step: Step) -> list[Injected]:
        """Execute a step that is not about a target's nodes alone."""
        cluster = self.cluster
        match step.do:
            case "heal":
                self._heal(step.target)
            case "recover":
                cluster.recover()
            case "kill-all":
                return [self._lab(step).kill_all()]
            case "start":
                cluster.start(*(self.targets.resolve(step.target) if step.target else ()))
            case "wait":
                assert step.until is not None, "the model holds it"
                self._wait(step.until, step.within)
            case "alter-topic":
                self._alter(ResourceType.TOPIC, step.topic, step)
            case "alter-quota":
                value: OperationValue = [
                    "alter-quota",
                    *(f"{key}={each}" for key, each in (step.quota | step.configs).items()),
                ]
                self._operation(value, lambda: alter_quota(self.cluster.bootstrap, step.quota, step.configs))
            case "rolling-restart":
                self._roll(step)
            case _:
                self._elect(step)
        return []

    def _heal(self, name: str | tuple[str, ...]) -> None:
        """End the faults of the named step; without a name every fault of links."""
        if not name:
            self.cluster.heal()
            return
        if not isinstance(name, str) or name not in self._begun:
            raise CannotDo(f"do: heal: no earlier step has the name {name!r}; names: {', '.join(self._begun)}")
        for fault in self._begun[name]:
            fault.end()

    def _pieces(self, found: Sequence[str], step: Step) -> list[Injected]:
        """Kill, pause or resume the targets, all at the same time."""
        active = None if step.do == "resume" else self._active_controller(found)

        def do(each: str) -> list[Injected]:
            node, _, role = each.partition("/")
            roles = (role,) if role else ()
            who = f"{each}{self._which(step, each, active)}"
            match step.do:
                case "kill":
                    return [self.cluster.kill(node, *roles, story=f"kill -9 {who}")]
                case "pause":
                    return [self.cluster.pause(node, *roles, story=f"SIGSTOP to {who}")]
                case _:
                    self.cluster.resume(node)
                    return []

        if len(found) == 1:
            return do(found[0])
        with ThreadPoolExecutor(max(1, len(found)), "chaos-verb") as pool:
            return [fault for faults in pool.map(do, found) for fault in faults]

    def _active_controller(self, found: Sequence[str]) -> str | None:
        """Return the active controller's node; without a query if no target can be it."""
        controllers = self.targets.controllers()
        may_be = any((node := each.partition("/"))[0] in controllers and node[2] != BROKER for each in found)
        return self.cluster.active_controller_now() if may_be else None

    def _which(self, step: Step, name: str, active: str | None) -> str:
        """Return a node's role, and the selector that chose it if it is more than its name."""
        node, _, role = name.partition("/")
        words = step.target if isinstance(step.target, str) else ", ".join(step.target)
        is_active = node == active and role != BROKER
        suffix = ", the active controller" if is_active else ""
        plain = words.partition("/")[0]
        return suffix if plain == node or (is_active and plain == "active-controller") else f"{suffix} ({words})"

    def _lab(self, step: Step) -> Lab:
        return self._lab_for(f"do: {step.do}")

    def _lab_for(self, what: str) -> Lab:
        if not isinstance(self.cluster, Lab):
            raise CannotDo(f"{what} needs a lab cluster")
        return self.cluster

    def _by_lab(self, step: Step, found: Sequence[str]) -> list[Injected]:
        lab = self._lab(step)
        match step.do:
            case "terminate":
                return [lab.terminate(each) for each in found]
            case "restart":
                for each in found:
                    lab.restart(each)
                return []
            case "wipe":
                return [lab.wipe(node, *([role] if role else [])) for node, _, role in self._split(found)]
            case "lose-tail":
                return [lab.lose_tail(*found)]
            case "flip-bits":
                for each in found:
                    lab.flip_bits(each, step.partition, step.count)
                return []
            case "disk-full":
                return [lab.fill_disk(each) for each in found]
            case "read-only":
                return [lab.read_only(each) for each in found]
            case "fail-directory":
                return [lab.directories.fail(node, step.directory) for node, _, _ in self._split(found)]
            case "replace-directory":
                return [lab.directories.replace(node, step.directory) for node, _, _ in self._split(found)]
            case "drop-directory":
                return [lab.directories.drop(node, step.directory) for node, _, _ in self._split(found)]
            case "move-log-dir":
                for node, _, _ in self._split(found):
                    self._move(lab, node, step)
                return []
            case "clock-jump":
                return [lab.jump_clock(each, step.ms) for each in found]
            case "isolate":
                return [lab.isolate(each, step.how or None, clients=step.clients) for each in found]
            case "failpoint":
                inside = Inside.of(lab.plan.cluster, lab.register)
                return [inside.failpoints(each, step.arm) for each in found]
            case "alter-broker":
                for node, _, _ in self._split(found):
                    self._alter(ResourceType.BROKER, str(lab.id_of(node)), step)
                return []
            case "refuse-inside":
                inside = Inside.of(lab.plan.cluster, lab.register)
                return [inside.refuse(f"{node}/{BROKER}", INTERNAL, cut=True) for node, _, _ in self._split(found)]
            case _:
                return self._links(lab, step, found)

    def _split(self, found: Sequence[str]) -> list[tuple[str, str, str]]:
        return [each.partition("/") for each in found]

    def _links(self, lab: Lab, step: Step, found: Sequence[str]) -> list[Injected]:
        """Start a fault on the links between each target and each other end."""
        began: list[Injected] = []
        for a in found:
            for b in self.targets.resolve(step.to):
                if a == b and a not in GROUPS:
                    continue
                match step.do:
                    case "cut":
                        began.append(lab.cut(a, b, step.how or None))
                    case "cut-one-way":
                        began.append(lab.cut_one_way(a, b, step.how or None))
                    case "slow":
                        began.append(lab.slow(a, b, step.ms or 100, step.jitter))
                    case _:
                        kind = step.do.replace("-", "_")
                        assert kind in LINK_KINDS, step.do
                        began.append(lab.fault(kind, a, b, one_way=step.one_way, share=step.share, **_attributes(step)))
        if not began and "random" not in f"{step.target} {step.to}":
            raise CannotDo(f"do: {step.do}: no link exists between {step.target} and {step.to}")
        return began

    def _roll(self, step: Step) -> None:
        """Restart every node in order, each when all is well again."""
        lab = self._lab(step)
        for node in self.targets.resolve(step.target or "all"):
            if self.stopped():
                return
            lab.restart(node)
            lab.wait_until_healthy(step.within)
            time.sleep(step.gap)

    def _alter(self, kind: ResourceType, name: str, step: Step) -> None:
        value: OperationValue = ["alter", name, *(f"{key}={each}" for key, each in step.configs.items())]
        entries = [
            ConfigEntry(key, each, incremental_operation=AlterConfigOpType.SET) for key, each in step.configs.items()
        ]
        resource = ConfigResource(kind, name, incremental_configs=entries)
        client = admin_client(self.cluster.bootstrap)
        self._operation(
            value,
            lambda: client.incremental_alter_configs([resource], request_timeout=REQUEST_SECONDS)[resource].result(
                ANSWER_SECONDS
            ),
        )

    def _move(self, lab: Lab, node: str, step: Step) -> None:
        """Request the move of a broker's replica to another log directory; it runs during the scenario."""
        path = lab.directories.path(node, step.directory)
        value: OperationValue = ["move-log-dir", step.partition, f"{node}:{step.directory}"]
        address = lab.plan.reached[lab.shape.groups[0]][node]
        self._operation(value, lambda: move(address, step.partition, path))

    def _elect(self, step: Step) -> None:
        """Request elections: of one partition, or (`all`) of all without a leader. A leader that is there is fine."""
        kind = UNCLEAN if step.do == "elect-unclean" else PREFERRED
        names = [step.partition]
        if step.partition == "all":
            names = [name for name, view in self.cluster.partitions().items() if no_leader(view)]
        if names:
            bootstrap = self.cluster.bootstrap
            value: OperationValue = [step.do.replace("elect-", "elect-leaders-"), *names]
            self._operation(value, lambda: elect(bootstrap, kind, names))

    def _operation(self, value: OperationValue, request: Callable[[], object]) -> None:
        """Execute a metadata operation of the scenario; the history records it like any other."""
        process = self.recorder.process("scenario")
        op = self.recorder.invoke(process, "admin", value)
        try:
            request()
        except (KafkaException, NotElected, NotMoved, NotAltered, Refused) as error:
            self.recorder.complete(op, Info, error=str(error))
            raise CannotDo(f"{value}: {error}") from error
        self.recorder.complete(op, Ok)

    def _wait(self, wanted: Condition, seconds: float) -> None:
        deadline, acked = time.monotonic() + seconds, len(self.recorder.acked) + wanted.acked
        while not self.stopped():
            why = self._missing(wanted, acked, deadline - time.monotonic())
            if not why:
                return
            if time.monotonic() > deadline:
                raise CannotDo(f"not within {seconds:g} s: {why}")
            time.sleep(POLL_SECONDS)

    def _missing(self, wanted: Condition, acked: int, left: float) -> str:
        """Return the unmet conditions; empty if all are met."""
        if len(self.recorder.acked) < acked:
            return f"{acked - len(self.recorder.acked)} more acknowledgements"
        is_about_partitions = wanted.isr or wanted.isr_at_most or wanted.leader or wanted.lies_in
        views = self.cluster.partitions() if is_about_partitions else {}
        for partition, count in wanted.isr.items():
            if partition not in views or len(views[partition].isr) != count:
                return f"{partition} with {count} in sync: {views.get(partition)}"
        for partition, count in wanted.isr_at_most.items():
            if partition not in views or len(views[partition].isr) > count:
                return f"{partition} with at most {count} in sync: {views.get(partition)}"
        for partition, who in wanted.leader.items():
            view = views.get(partition)
            leader = None if view is None or no_leader(view) else self.cluster.name_of(view.leader)
            if not self._is(leader, who):
                return f"{partition} led by {who}: {leader}"
        for partition, number in wanted.lies_in.items():
            view = views.get(partition)
            leader = None if view is None or no_leader(view) else self.cluster.name_of(view.leader)
            if leader is None or not self._lab_for("until: lies_in").directories.lies_in(leader, partition, number):
                return f"{partition} in directory {number} of its leader: {leader}"
        if wanted.controller and not self._is(self.cluster.active_controller(), wanted.controller):
            return f"an active controller that is {wanted.controller}"
        missing = self._operator.missing(wanted)
        if missing:
            return missing
        if wanted.resigned:
            active = self._lab_for("until: resigned").say_they_are_active()
            still = [each for each in self.targets.resolve(wanted.resigned) if each in active]
            if still:
                return f"{', '.join(still)} no longer active"
        if wanted.healthy:
            self.cluster.wait_until_healthy(max(left, 0.0))
        return ""

    def _is(self, name: str | None, who: str) -> bool:
        if who in ("none", "some"):
            return (name is None) == (who == "none")
        if who.startswith("not "):
            return name is not None and name not in self.targets.resolve(who.removeprefix("not "))
        return name is not None and name in self.targets.resolve(who)


def _attributes(step: Step) -> dict[str, int]:
    """Return the extra parameters of a fault of links."""
    match step.do:
        case "latency":
            return {"latency": step.ms or 100, "jitter": step.jitter}
        case "bandwidth":
            return {"rate": step.rate or 1}
        case _:
            return {}
