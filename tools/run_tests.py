"""Run the test suite, one pytest per step. A step is a folder below tests/.

    python tools/run_tests.py                        what `make test` runs: everything that is not marked `long`
    python tools/run_tests.py --long                 also the tests marked `long`
    python tools/run_tests.py --long --compiled      `make test-long`: clusters on the compiled modules (make compiled)
    python tools/run_tests.py --long spark mutants   some steps alone
    python tools/run_tests.py --slice COMMIT         as the first, then a part of the long tests, chosen by the commit

pytest's own summary closes each step; the last line adds them up in pytest's words. build/tests has the duration of
each test: one JUnit XML file per step.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple


class Step(NamedTuple):
    """One run of pytest."""

    name: str
    paths: tuple[str, ...]
    dist: str = ""
    """How pytest-xdist distributes the tests to workers; empty: a single process runs them."""
    waits: bool = False
    """Tests of real processes wait most of their time: such a step gets half as many workers again."""
    is_compiled: bool = False
    """Whether --compiled runs the step on the compiled modules."""


STEPS = (
    Step("unit", ("tests/unit",), dist="worksteal"),
    Step("simulation", ("tests/simulation",), dist="worksteal"),
    Step("mutants", ("tests/mutants",), dist="worksteal"),
    # loadfile: the tests of a file share a cluster.
    Step("cluster", ("tests/cluster",), dist="loadfile", waits=True, is_compiled=True),
    Step("console", ("tests/console",), dist="loadfile", waits=True, is_compiled=True),
    Step("spark", ("tests/spark",)),
)
COMPILED_UNITS = Step(
    "compiled",
    ("tests/unit/protocol", "tests/unit/network", "tests/unit/storage", "tests/unit/broker/replica"),
    dist="worksteal",
    is_compiled=True,
)
"""The units of the compiled modules; runs with --compiled only."""
SLICES = 12
"""Number of parts into which --slice divides the long tests: each takes about six minutes on two cores."""
SLICE_SECONDS_MAX = 600
"""No further test of a slice starts after that."""
COMPILED = Path("build/compiled").absolute()
RESULTS = Path("build/tests")
FAILURE = re.compile(r"(FAILED|ERROR) \S+::")
COUNTS = re.compile(r"(\d+) (passed|failed|skipped|xfailed|xpassed|errors?)\b")


class Totals:
    """The counts of all steps."""

    def __init__(self) -> None:
        """Begin at zero."""
        self.counts = {"passed": 0, "failed": 0, "skipped": 0}
        self.failures: list[str] = []
        self.code = 0

    def add(self, code: int, last_line: str) -> None:
        """Add a step's exit code (5: no test was selected) and the counts in its last line."""
        self.code = self.code or (0 if code == 5 else code)
        for count, word in COUNTS.findall(last_line):
            key = "failed" if word.startswith("error") else word
            self.counts[key] = self.counts.get(key, 0) + int(count)

    def print(self) -> None:
        """Repeat the failures and print the sum."""
        print("\n".join(self.failures), end="\n" if self.failures else "")
        counted = [f"{count} {word}" for word, count in self.counts.items() if count or word in ("passed", "failed")]
        print(", ".join(counted))


def run_step(step: Step, options: argparse.Namespace, environment: dict[str, str], totals: Totals) -> None:
    """Run one pytest and add its result to the totals."""
    command = [sys.executable, "-m", "pytest", "-q", "-rfEs", "--durations=10", *step.paths]
    command.append(f"--junitxml={RESULTS / step.name}.xml")
    if step is COMPILED_UNITS:
        command += ["-m", "not patches"]
    workers = options.workers * 3 // 2 if step.waits else options.workers
    if step.dist and workers > 1:
        command += ["-n", str(workers), "--dist", step.dist]
    environment = os.environ | environment
    if options.compiled and step.is_compiled:
        environment["PYTHONPATH"] = str(COMPILED)
    print(f"== {step.name}", flush=True)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    last = ""
    for line in process.stdout:
        print(line, end="", flush=True)
        last = line if COUNTS.search(line) else last
        if FAILURE.match(line):
            totals.failures.append(line.rstrip())
    totals.add(process.wait(), last)


def main() -> int:
    """Run the steps; exit non-zero when one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--long", action="store_true", help="run also the tests marked `long`")
    parser.add_argument("--compiled", action="store_true", help="run the compiled modules (make compiled)")
    parser.add_argument("--slice", metavar="COMMIT", help="then run one slice of the long tests, chosen by the commit")
    names = [step.name for step in (*STEPS, COMPILED_UNITS)]
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"{', '.join(names)}; without any: all")
    options = parser.parse_args()
    if unknown := sorted(set(options.steps) - set(names)):
        parser.error(f"no step {', '.join(unknown)}; there are {', '.join(names)}")
    steps = [*STEPS, COMPILED_UNITS] if options.compiled else list(STEPS)
    totals = Totals()
    for step in steps:
        if not options.steps or step.name in options.steps:
            run_step(step, options, {"KVORUM_LONG": "all"} if options.long else {}, totals)
    if options.slice:
        number = int(options.slice[:8], 16) % SLICES + 1
        step = Step(
            f"long-slice-{number}-of-{SLICES}", tuple(path for each in STEPS for path in each.paths), "loadfile"
        )
        run_step(step, options, {"KVORUM_LONG": f"{number}/{SLICES}", "KVORUM_SECONDS": str(SLICE_SECONDS_MAX)}, totals)
    totals.print()
    return totals.code or (0 if totals.counts["passed"] else 1)


if __name__ == "__main__":
    sys.exit(main())
