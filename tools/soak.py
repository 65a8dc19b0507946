"""Run quorum simulation seeds for as long as one has patience; a failing seed is printed and ends the run.

Run: python tools/soak.py [--first SEED] [--seconds S] [--jobs J]
"""

import argparse
import multiprocessing
import sys
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one seed did."""

    seed: int
    virtual_seconds: float
    acked: int
    failure: str | None


def run_one(seed: int) -> Outcome:
    """Run one seed; a violation is a value, so that the other processes' results are not lost."""
    from kvorum.chaos.sim.loop import START_S
    from kvorum.chaos.sim.quorum_faults import run_seed

    try:
        world = run_seed(seed)
    except Exception as error:  # any failure of a seed is what this tool looks for
        return Outcome(seed, 0.0, 0, f"{type(error).__name__}: {error}")
    return Outcome(seed, world.loop.time() - START_S, world.acked, None)


def main() -> int:
    """Run seeds in order until the time is over; print seeds a second and virtual hours."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count())
    options = parser.parse_args()
    began = time.monotonic()
    seeds, virtual, acked, failures = 0, 0.0, 0, []

    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        first = options.first
        while time.monotonic() - began < options.seconds and not failures:
            for outcome in pool.imap_unordered(run_one, range(first, first + 50 * options.jobs)):
                seeds, virtual, acked = seeds + 1, virtual + outcome.virtual_seconds, acked + outcome.acked
                if outcome.failure is not None:
                    failures.append(outcome)
            first += 50 * options.jobs
            took = time.monotonic() - began
            print(f"{seeds} seeds, {seeds / took:.1f}/s, {virtual / 3600:.2f} virtual h, {acked} acked", flush=True)
    for failure in failures:
        print(f"seed {failure.seed}: {failure.failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
