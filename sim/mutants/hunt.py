"""Look for a mutant with the simulations or its unit test: what finds it, by which violation, after how many seeds."""

import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from kvorum.chaos.report.results import MutantResult
from sim.draw import draw_plan
from sim.mutants.catalogue import CLUSTER, DIRECTED, MUTANTS, QUORUM, UNIT, Mutant, apply_mutant
from sim.mutants.plans import draw_directed
from sim.plan import Plan
from sim.quorum_faults import run_seed
from sim.run import quiet, run_plan

SECONDS: Final = 20.0
"""Virtual seconds of a drawn run of a whole cluster."""
REASON_CHARS_MAX: Final = 60
"""Letters of a message that identify a violation without a name."""
TEST_SECONDS_MAX: Final = 600.0
ASSERTION: Final = "E   "
"""pytest's mark of the lines of an error."""


def hunt(mutant: Mutant, seeds: Iterable[int]) -> MutantResult:
    """Run seeds with the mutant in place until one fails. `seconds` of the result are of real time."""
    if mutant.means == UNIT:
        return hunt_in_unit_test(mutant)
    began = time.monotonic()
    tried = 0
    with apply_mutant(mutant.name):
        for seed in seeds:
            tried += 1
            found = FINDERS[mutant.means](mutant, seed)
            if found is not None:
                took = time.monotonic() - began
                caught_by = f"{mutant.means} simulation, seed {seed}: {found}"
                return MutantResult(
                    name=mutant.name, wrong=mutant.wrong, caught_by=caught_by, seeds=tried, seconds=took
                )
    return MutantResult(name=mutant.name, wrong=mutant.wrong, seeds=tried, seconds=time.monotonic() - began)


def hunt_in_unit_test(mutant: Mutant) -> MutantResult:
    """Run the unit test of a mutant in a process with it."""
    began = time.monotonic()
    command = [sys.executable, "-m", "sim.mutants.witness", mutant.apply.__name__, f"tests/unit/{mutant.witness}"]
    # KVORUM_LONG=N/M selects tests: the unit test could be deselected.
    environment = {name: value for name, value in os.environ.items() if name != "KVORUM_LONG"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TEST_SECONDS_MAX, check=False, env=environment
    )
    seconds = time.monotonic() - began
    if done.returncode == 0:
        return MutantResult(name=mutant.name, wrong=mutant.wrong, seeds=1, seconds=seconds)
    reasons = [line.removeprefix(ASSERTION).strip() for line in done.stdout.splitlines() if line.startswith(ASSERTION)]
    assert done.returncode == 1 and reasons, f"{mutant.witness} did not run: {done.stdout}{done.stderr}"
    caught_by = f"{UNIT} {mutant.witness.partition('::')[2]}: {reasons[0][:REASON_CHARS_MAX]}"
    return MutantResult(name=mutant.name, wrong=mutant.wrong, caught_by=caught_by, seeds=1, seconds=seconds)


def hunt_named(name: str, *, first: int = 1, seeds: int, swarm: bool = False) -> MutantResult:
    """Hunt a mutant by its name from a first seed on; `swarm`: drawn plans replace directed ones."""
    mutant = MUTANTS[name]
    if swarm and mutant.means == DIRECTED:
        mutant = replace(mutant, means=CLUSTER)
    return hunt(mutant, range(first, first + seeds))


def passes(mutant: Mutant, seed: int) -> bool:
    """Return whether a seed of the mutant's means finds nothing where no mutant is in place."""
    return FINDERS[mutant.means](mutant, seed) is None


def plan_of(mutant: Mutant, seed: int) -> Plan:
    """Return the plan of a seed, as the mutant's means has it."""
    return (
        draw_directed(
            seed,
            mutant.options,
            mutant.load,
            mutant.every_fault,
            mutant.script,
            seconds=mutant.seconds,
            reassigns=mutant.reassigns,
            duties=mutant.duties,
            moves=mutant.moves,
            throttles=mutant.throttles,
            extras=mutant.extras,
        )
        if mutant.means == DIRECTED
        # Its seeds were found without.
        else draw_plan(
            seed,
            SECONDS,
            coordinators=False,
            reassignments=False,
            duties=False,
            moves=False,
            losses=False,
            quotas=False,
            racks=False,
            throttles=False,
            levels=False,
        )
    )


def _in_cluster(mutant: Mutant, seed: int) -> str | None:
    return run_plan(plan_of(mutant, seed)).kind


def _in_quorum(mutant: Mutant, seed: int) -> str | None:
    with quiet():
        try:
            run_seed(mutant.beyond + seed, **mutant.quorum(mutant.beyond + seed))
        except Exception as error:  # any failure of a seed counts
            place = traceback.extract_tb(error.__traceback__)[-1].name
            return f"{type(error).__name__}: {str(error)[:REASON_CHARS_MAX] or f'in {place}'}"
    return None


FINDERS: Final[dict[str, Callable[[Mutant, int], str | None]]] = {
    CLUSTER: _in_cluster,
    DIRECTED: _in_cluster,
    QUORUM: _in_quorum,
}
