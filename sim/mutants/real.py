"""Look for a mutant on real processes: its scenario with mutated children, judged by the chaos lab's checker."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kvorum.chaos.faults.events import OnFault
from kvorum.chaos.report.results import MutantResult
from kvorum.chaos.scenario.models import Scenario
from kvorum.chaos.scenario.outcome import Outcome
from kvorum.chaos.scenario.runner import Run
from kvorum.chaos.scenario.systems import LabSystem, System
from sim.mutants.catalogue import MUTANTS
from sim.mutants.child import MODULE, VARIABLE
from sim.mutants.scenarios import scenarios_of

REAL: Final = "real processes"
REASON_CHARS_MAX: Final = 120
"""Letters of the missed expectations in the result."""


class NoVerdict(Exception):
    """The scenario had no verdict: it proves nothing."""


@dataclass(slots=True)
class MutantRun(Run):
    """A run whose nodes all carry a mutant."""

    mutant: str = field(kw_only=True)

    def _system(self, on_fault: OnFault) -> System:
        """Make the cluster."""
        return LabSystem(
            self.scenario,
            self.folder,
            self.seed,
            on_fault,
            self._seconds,
            child_module=MODULE,
            environment={VARIABLE: self.mutant},
        )


def run_real(
    name: str, folder: Path, *, seed: int = 1, mutated: bool = True, scenario: Scenario | None = None
) -> Outcome:
    """Run a scenario for a mutant (the first by default) with it, or with the unchanged code.

    Raises KeyError: no scenario shows it.
    """
    scenario = scenario or scenarios_of(name)[0]
    if mutated:
        return MutantRun(scenario, folder, seed, keep_data=False, mutant=name).run()
    return Run(scenario, folder, seed, keep_data=False).run()


def hunt_real(name: str, folder: Path, *, seed: int = 1, scenario: Scenario | None = None) -> MutantResult:
    """Run a scenario for a mutant (the first by default) with it and return the findings.

    By the checker, else unmet expectations of the scenario (such as a recovered cluster). Raises
    NoVerdict.
    """
    began = time.monotonic()
    outcome = run_real(name, folder, seed=seed, scenario=scenario)
    if outcome.verdict is None:
        raise NoVerdict(outcome.could_not_run or outcome.skipped)
    found = ", ".join(f"{each.anomaly} x {each.count}" for each in outcome.verdict.violations)
    found = found or "; ".join(outcome.failures)[:REASON_CHARS_MAX]
    caught_by = f"{REAL}, {outcome.scenario}, seed {seed}: {found}" if found else None
    return MutantResult(
        name=name, wrong=MUTANTS[name].wrong, caught_by=caught_by, seeds=1, seconds=time.monotonic() - began
    )
