"""Run the test suite in steps: units and simulation, clusters, Spark. Print one sum at last.

Everything runs as Python. With --compiled (`make test-long`), the units of the compiled modules run once more, and the
clusters run on the compiled modules. pytest's own summary closes each step; the last line adds the steps up in
pytest's words. build/tests has the time of each test: one JUnit XML file per step.
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

    title: str
    marks: str
    dist: str = ""
    """How pytest-xdist deals tests out to workers; empty: one process runs them all."""
    is_compiled: bool = False
    paths: tuple[str, ...] = ()


STEPS = (
    Step("units and simulation", "not cluster and not pipelines", dist="worksteal"),
    Step(
        "units of the compiled modules",
        "not cluster and not sim and not patches",
        dist="worksteal",
        is_compiled=True,
        paths=("tests/protocol", "tests/network", "tests/storage", "tests/broker/replica"),
    ),
    Step("clusters of real processes", "cluster and not pipelines and not patches", dist="loadfile", is_compiled=True),
    Step("clusters with parts replaced", "cluster and patches"),
    Step("pipelines on Spark", "pipelines"),
)
COMPILED = Path("build/compiled").absolute()
RESULTS = Path("build/tests")
FAILURE = re.compile(r"(FAILED|ERROR) \S+::")
COUNTS = re.compile(r"(\d+) (passed|failed|skipped|xfailed|xpassed|errors?)\b")


def run_step(
    step: Step, workers: int, use_compiled: bool, extra: list[str], failures: list[str]
) -> tuple[int, dict[str, int]]:
    """Run one pytest; return its exit code and what its last line counted. Its lines of failed tests are collected."""
    command = [sys.executable, "-m", "pytest", "-q", "-rfEs", "--durations=10", "-m", step.marks, *step.paths, *extra]
    command.append(f"--junitxml={RESULTS / step.title.replace(' ', '-')}.xml")
    if step.dist and workers > 1:
        # worksteal: the long simulations are collected last and in a row. loadfile: tests of a file share a cluster.
        command += ["-n", str(workers), "--dist", step.dist]
    environment = os.environ | ({"PYTHONPATH": str(COMPILED)} if use_compiled and step.is_compiled else {})
    print(f"== {step.title}", flush=True)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    last = ""
    for line in process.stdout:
        print(line, end="", flush=True)
        last = line if COUNTS.search(line) else last
        if FAILURE.match(line):
            failures.append(line.rstrip())
    counts = {word.removesuffix("s") if word.startswith("error") else word: int(n) for n, word in COUNTS.findall(last)}
    return process.wait(), counts


def main() -> int:
    """Run the steps; exit non-zero when one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--compiled", action="store_true", help="run clusters on build/compiled (make compiled)")
    parser.add_argument("extra", nargs="*", help="more options for pytest")
    options = parser.parse_args()
    worst, total, failures = 0, {"passed": 0, "failed": 0, "skipped": 0}, list[str]()
    for step in STEPS:
        if step.paths and not options.compiled:
            continue
        code, counts = run_step(step, options.workers, options.compiled, options.extra, failures)
        worst = worst or (0 if code == 5 else code)
        for word, count in counts.items():
            key = "failed" if word == "error" else word
            total[key] = total.get(key, 0) + count
    # Repeat the failures at the end of the log.
    print("\n".join(failures), end="\n" if failures else "")
    print(", ".join(f"{count} {word}" for word, count in total.items() if count or word in ("passed", "failed")))
    return worst or (0 if total["passed"] else 1)


if __name__ == "__main__":
    sys.exit(main())
