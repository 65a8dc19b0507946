"""Executes the steps of a scenario at their times, ends steps with `for`, and draws random steps.

Each end has its own thread: a node that takes long to start delays no later step.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random
from typing import Final

from kvorum.chaos.faults.events import ActiveFault
from kvorum.chaos.faults.fault_kinds import FAULTS
from kvorum.chaos.scenario.models import RandomFaults, Step
from kvorum.chaos.scenario.verbs import Verbs

TICK_SECONDS: Final = 0.05
ENDERS: Final = 32
DOWN: Final = frozenset(kind.verb for kind in FAULTS.values() if kind.stops == "nodes")
"""Kinds by which a node cannot be reached."""


@dataclass(frozen=True, slots=True)
class Window:
    """A span of time in which sends must, or must not, be acknowledged."""

    begin: float
    end: float
    step: Step


@dataclass(slots=True)
class Schedule:
    """Runs steps. `seconds`: the run's clock."""

    verbs: Verbs
    seconds: Callable[[], float]
    stopped: Callable[[], bool]
    on_step: Callable[[str], None]
    windows: list[Window] = field(default_factory=list)
    done: int = 0
    """Steps that were carried out."""
    errors: list[str] = field(default_factory=list)
    """Errors of ends: a node that did not start, a link that was not repaired."""
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(ENDERS, "chaos-end"))
    _ends: "list[Future[None]]" = field(default_factory=list)

    def run(self, steps: Sequence[Step], duration: float, period: float) -> None:
        """Execute the steps, again every `period` seconds, until `duration` has passed or the run must end.

        A round that fits is executed completely even if its waits take long; a round that does not fit is cut off.

        Raises the verbs' errors; call `finish` in any case.
        """
        began, round_at = time.monotonic(), 0.0
        while round_at < duration and not self.stopped():
            whole = round_at + period <= duration
            self._round(steps, began + round_at, float("inf") if whole else began + duration)
            round_at += period
            self._sleep_until(min(began + round_at, began + duration))

    def finish(self) -> None:
        """Wait for the ends in progress; later ones are left to the final repair."""
        self._pool.shutdown(wait=True, cancel_futures=False)

    def _round(self, steps: Sequence[Step], began: float, until: float) -> None:
        last = began
        for step in steps:
            due = began + step.at if step.at is not None else max(last, time.monotonic()) + step.after
            if due >= until:
                return
            self._sleep_until(due)
            if self.stopped():
                return
            self._step(step)
            last = time.monotonic()

    def _step(self, step: Step) -> None:
        self.on_step(step_text(step))
        if step.do == "window":
            assert step.hold is not None, "the model holds it"
            begin = self.seconds()
            self._sleep_until(time.monotonic() + step.hold)
            self.windows.append(Window(begin, self.seconds(), step))
        else:
            faults = self.verbs.do(step)
            if step.hold is not None and faults:
                at = time.monotonic() + step.hold
                self._ends.append(self._pool.submit(self._end, faults, at))
        self.done += 1

    def _end(self, faults: Sequence[ActiveFault], at: float) -> None:
        self._sleep_until(at)
        for fault in faults:
            try:
                fault.end()
            except Exception as error:
                # After any exception of the end of a fault the run must record it and continue the repair.
                self.errors.append(f"{fault.story}: not ended: {error}")

    def _sleep_until(self, moment: float) -> None:
        while (left := moment - time.monotonic()) > 0 and not self.stopped():
            time.sleep(min(left, TICK_SECONDS))


def step_text(step: Step) -> str:
    """Return a step in words."""
    target = step.target if isinstance(step.target, str) else ", ".join(step.target)
    parts = [step.do, target, f"to {step.to}" if step.to else "", f"for {step.hold:g} s" if step.hold else ""]
    return " ".join(part for part in (*parts, step.partition, step.topic) if part)


def draw_steps(plan: RandomFaults, partitions: Sequence[str], duration: float, rng: Random) -> list[Step]:
    """Return the steps of a random schedule: every `every` seconds another subset of kinds, sometimes an empty one.

    Each kind of a subset has its own sequence of faults, so different ones overlap; at most `down_max` nodes
    are down at a time. The same `rng` draws the same steps.
    """
    steps: list[Step] = []
    down: list[tuple[float, float]] = []
    began = 0.0
    while began < duration:
        ends = min(began + plan.every, duration)
        kinds = () if rng.random() < plan.quiet else _subset(plan.kinds, rng)
        for kind in kinds:
            at = began + rng.uniform(*plan.gap)
            while at + plan.hold[0] <= ends:
                hold = min(rng.uniform(*plan.hold), ends - at)
                overlapping = sum(1 for begin, end in down if begin < at + hold and at < end)
                if kind not in DOWN or overlapping < plan.down_max:
                    steps.append(_draw_step(kind, at, hold, partitions, rng))
                    if kind in DOWN:
                        down.append((at, at + hold))
                at += hold + rng.uniform(*plan.gap)
        began = ends
    return sorted(steps, key=lambda step: step.at or 0.0)


def _subset(kinds: Sequence[str], rng: Random) -> list[str]:
    chosen = [kind for kind in kinds if rng.random() < 0.5]
    return chosen or [rng.choice(kinds)]


def _draw_step(kind: str, at: float, hold: float, partitions: Sequence[str], rng: Random) -> Step:
    """Return a step of this kind at a drawn target."""
    target = rng.choice(["random", "random", f"leader {rng.choice(partitions)}", "active-controller"])
    found: dict[str, object] = {"do": kind, "at": round(at, 3), "for": round(hold, 3)}
    match kind:
        case "kill-all":
            pass
        case "cut" | "cut-one-way" | "slow" | "freeze":
            role = rng.choice(["broker", "controller"])
            found |= {"target": f"{target}/broker", "to": f"random/{role}"}
            if kind == "slow":
                found |= {"ms": rng.choice([50, 200, 1000]), "jitter": 50}
        case "lose-responses" | "lose-requests" | "reset":
            found |= {"target": rng.choice(["clients", f"{target}/broker"]), "to": "random/broker"}
        case "clock-jump":
            found |= {"target": target, "ms": rng.choice([-3_600_000, -5_000, 5_000, 86_400_000])}
        case "restart":
            found |= {"target": target}
            del found["for"]
        case _:
            found |= {"target": target}
    return Step.model_validate(found)
