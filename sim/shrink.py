"""Make a failing run's plan small: fewer faults, fewer kinds, less time, less load, as long as it fails alike. Pure.

Since a plan is data and everything else comes from its seed, leaving a fault out changes nothing that happens before
it. Tried from coarse to fine, as in delta debugging (Zeller and Hildebrandt, 2002); the number of runs is limited.
"""

from collections.abc import Callable, Iterator
from math import ceil
from typing import Final, Generic, TypeVar

import msgspec

from sim.plan import Plan
from sim.quorum_plan import QuorumPlan

RUNS_MAX: Final = 150
"""Runs of one shrinking; each takes a second or a few."""

P = TypeVar("P", Plan, QuorumPlan)
T = TypeVar("T")
Fails = Callable[[P], str | None]
"""Runs a plan and returns the kind of violation, None if there is none."""


class Shrinker(Generic[P]):
    """One shrinking; `plan` is the smallest so far."""

    def __init__(self, plan: P, kind: str, fails: Fails[P], runs_max: int = RUNS_MAX) -> None:
        """Create it with a plan that fails with this kind."""
        self.plan: P = plan
        self.runs = 0
        self._kind = kind
        self._fails: Fails[P] = fails
        self._runs_max = runs_max

    def try_plan(self, candidate: P) -> bool:
        """Keep a smaller plan if it still fails with the same kind."""
        if self.runs >= self._runs_max or candidate == self.plan:
            return False
        self.runs += 1
        if self._fails(candidate) != self._kind:
            return False
        self.plan = candidate
        return True

    def shorten(self) -> None:
        """End the run sooner, without the faults behind its end."""
        for share in (0.25, 0.5, 0.75):
            seconds = float(ceil(self.plan.seconds * share))
            faults = [fault for fault in self.plan.faults if fault.at < seconds]
            if self.try_plan(msgspec.structs.replace(self.plan, seconds=seconds, faults=faults)):
                return

    def drop_kinds(self) -> None:
        """Leave out all faults of one kind."""
        for kind in sorted({fault.kind for fault in self.plan.faults}):
            faults = [fault for fault in self.plan.faults if fault.kind != kind]
            self.try_plan(msgspec.structs.replace(self.plan, faults=faults))

    def drop_faults(self) -> None:
        """Leave out faults, half of them down to single ones, until none can go."""
        size = max(1, len(self.plan.faults) // 2)
        while self.plan.faults and self.runs < self._runs_max:
            rests = without_pieces(list(self.plan.faults), size)
            if not any(self.try_plan(msgspec.structs.replace(self.plan, faults=rest)) for rest in rests):
                if size == 1:
                    return
                size = max(1, size // 2)


def lessen_load(shrinker: Shrinker[Plan]) -> None:
    """Leave out consumers, changes of topics, and all producers but one."""
    load = shrinker.plan.options.load
    candidates = [
        msgspec.structs.replace(load, admin_every_s=1000.0),
        msgspec.structs.replace(load, consumers=0),
        *(msgspec.structs.replace(load, producers=[producer]) for producer in load.producers),
    ]
    for candidate in candidates:
        merged = msgspec.structs.replace(
            shrinker.plan.options.load,
            **{
                name: getattr(candidate, name)
                for name in ("admin_every_s", "consumers", "producers")
                if getattr(candidate, name) != getattr(load, name)
            },
        )
        options = msgspec.structs.replace(shrinker.plan.options, load=merged)
        shrinker.try_plan(msgspec.structs.replace(shrinker.plan, options=options))


def without_pieces(faults: list[T], size: int) -> Iterator[list[T]]:
    """Iterate over the lists that lack one piece of this number of faults, the last piece first."""
    for start in range((len(faults) - 1) // size * size, -1, -size):
        yield faults[:start] + faults[start + size :]


def shrink(plan: Plan, kind: str, fails: Fails[Plan], runs_max: int = RUNS_MAX) -> Plan:
    """Return a smaller plan that fails with the same kind of violation (the same plan if none is found)."""
    shrinker: Shrinker[Plan] = Shrinker(plan, kind, fails, runs_max)
    shrinker.shorten()
    shrinker.drop_kinds()
    shrinker.drop_faults()
    lessen_load(shrinker)
    shrinker.shorten()
    shrinker.drop_faults()
    return shrinker.plan


def shrink_quorum(plan: QuorumPlan, kind: str, fails: Fails[QuorumPlan], runs_max: int = RUNS_MAX) -> QuorumPlan:
    """Return the same for the quorum alone, whose load stays."""
    shrinker: Shrinker[QuorumPlan] = Shrinker(plan, kind, fails, runs_max)
    shrinker.shorten()
    shrinker.drop_kinds()
    shrinker.drop_faults()
    shrinker.shorten()
    return shrinker.plan
