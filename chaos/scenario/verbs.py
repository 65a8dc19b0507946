"""Effects of steps on a cluster. A fault's step returns the faults it began; `for` seconds later they are ended.

Every cluster can be killed, started, paused and resumed; the rest needs one that the lab made.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, cast

from kvorum.chaos.faults.events import ActiveFault
from kvorum.chaos.faults.fault_kinds import FaultKind, Injection
from kvorum.chaos.faults.lab import Lab
from kvorum.chaos.faults.link_faults import LINK_KINDS
from kvorum.chaos.faults.topology import BROKER
from kvorum.chaos.scenario.conditions import describe_unmet_condition
from kvorum.chaos.scenario.external import ExternalCluster
from kvorum.chaos.scenario.models import REFUSE_INSIDE, Condition, Step
from kvorum.chaos.scenario.operator_steps import OperatorSteps, StepError, node_of
from kvorum.chaos.scenario.targets import GROUPS, Targets
from kvorum.chaos.workload.recorder import Recorder

POLL_SECONDS: Final = 0.05
HOOKED: Final = {"kill": "kill -9", "pause": "SIGSTOP to"}
"""{fault that an external cluster supports too: begin of its story}."""


@dataclass(slots=True)
class Verbs:
    """The verbs of one run."""

    cluster: Lab | ExternalCluster
    targets: Targets
    recorder: Recorder
    stopped: Callable[[], bool]
    """Whether the run is to end: waits give up."""
    _begun: dict[str, list[ActiveFault]] = field(default_factory=dict)
    """Last faults of the named steps."""

    def do(self, step: Step) -> list[ActiveFault]:
        """Start a step; return the faults that its `for` ends. Raises StepError, UnknownTarget and the lab's errors."""
        if step.do == "heal":
            self._heal(step.target)
            return []
        kind = step.fault
        found: list[str] = []
        if step.target:
            is_partition = kind is not None and kind.of == "partitions"
            found = [str(step.target)] if is_partition else self.targets.resolve(step.target)
        if step.name and found:
            self.targets.remember(step.name, found)
        began = self._act(step, found) if kind is None else self._inject(step, kind, found)
        if step.name:
            self._begun[step.name] = began
        return began

    def _heal(self, name: str | tuple[str, ...]) -> None:
        """End the faults of the named step; without a name every fault of links."""
        if name and (not isinstance(name, str) or name not in self._begun):
            raise StepError(f"do: heal: no earlier step has the name {name!r}; names: {', '.join(self._begun)}")
        for fault in self._begun[str(name)] if name else self.cluster.register.in_force(*LINK_KINDS):
            fault.end()

    def _act(self, step: Step, found: Sequence[str]) -> list[ActiveFault]:
        """Execute a step that is not a fault."""
        match step.do:
            case "recover":
                self.cluster.recover()
            case "start":
                self.cluster.processes.start(*found)
            case "resume":
                with ThreadPoolExecutor(max(1, len(found)), "chaos-verb") as pool:
                    list(pool.map(self.cluster.processes.resume, map(node_of, found)))
            case "wait":
                assert step.until is not None, "the model holds it"
                self._wait(step.until, step.within)
            case "rolling-restart":
                self._roll(step)
            case _:
                OperatorSteps(self.cluster, self.targets, self.recorder).do(step, found)
        return []

    # Faults.

    def _inject(self, step: Step, kind: FaultKind, found: Sequence[str]) -> list[ActiveFault]:
        """Inject a fault into each target, or one that is about all of them, or about none."""
        if not isinstance(self.cluster, Lab) and kind.name not in HOOKED:
            raise StepError(f"do: {step.do} needs a lab cluster")
        if step.do == REFUSE_INSIDE:
            found = [f"{node_of(each)}/{BROKER}" for each in found]
        if kind.name in HOOKED:
            active = self._active_controller(found)
            with ThreadPoolExecutor(max(1, len(found)), "chaos-verb") as pool:
                began = pool.map(lambda each: self._begin(step, kind, each, active=active), found)
                return [fault for faults in began for fault in faults]
        if kind.targets == (2, 2):
            return self._inject_into_links(step, kind, found)
        if kind.targets[1] != 1:
            return self._begin(step, kind, *found)
        return [fault for each in found for fault in self._begin(step, kind, each)]

    def _inject_into_links(self, step: Step, kind: FaultKind, found: Sequence[str]) -> list[ActiveFault]:
        """Inject a fault into the links between each target and each other end."""
        pairs = [(a, b) for a in found for b in self.targets.resolve(step.to) if a != b or a in GROUPS]
        if not pairs and "random" not in f"{step.target} {step.to}":
            raise StepError(f"do: {step.do}: no link exists between {step.target} and {step.to}")
        return [fault for pair in pairs for fault in self._begin(step, kind, *pair)]

    def _begin(self, step: Step, kind: FaultKind, *targets: str, active: str | None = None) -> list[ActiveFault]:
        story = ""
        if kind.name in HOOKED:
            story = f"{HOOKED[kind.name]} {targets[0]}{self._which(step, targets[0], active)}"
        # An external cluster has the processes that the hooked faults need, and nothing else.
        injection = Injection(cast(Lab, self.cluster), targets, self.targets.rng, story)
        fault = kind.inject(injection, step.options)
        return [] if fault is None else [fault]

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

    # Waits.

    def _roll(self, step: Step) -> None:
        """Restart every node in order, each when all is well again."""
        lab = OperatorSteps(self.cluster, self.targets, self.recorder).lab(step)
        for node in self.targets.resolve(step.target or "all"):
            if self.stopped():
                return
            lab.processes.restart(node)
            lab.wait_until_healthy(step.within)
            time.sleep(step.gap)

    def _wait(self, wanted: Condition, seconds: float) -> None:
        deadline, acked = time.monotonic() + seconds, len(self.recorder.acked) + wanted.acked
        while not self.stopped():
            began = time.monotonic()
            missing = acked - len(self.recorder.acked)
            problem = f"{missing} more acknowledgements" if missing > 0 else ""
            problem = problem or describe_unmet_condition(
                self.cluster, self.targets, wanted, deadline - time.monotonic()
            )
            if not problem:
                return
            if time.monotonic() > deadline:
                raise StepError(f"not within {seconds:g} s: {problem}")
            time.sleep(max(POLL_SECONDS, time.monotonic() - began))
