"""Run the whole suite: units and simulation in parallel, then clusters one at a time, then Spark; end with one sum.

pytest's own summary closes each step; the last line adds the steps up in pytest's words.
"""

import argparse
import re
import subprocess
import sys

STEPS = (
    ("units and simulation", "not cluster and not pipelines", True),
    ("clusters of real processes", "cluster and not pipelines", False),
    ("pipelines on Spark", "pipelines", False),
)
FAILURE = re.compile(r"(FAILED|ERROR) \S+::")
COUNTS = re.compile(r"(\d+) (passed|failed|skipped|xfailed|xpassed|errors?)\b")


def run_step(title: str, marks: str, workers: int, extra: list[str], failures: list[str]) -> tuple[int, dict[str, int]]:
    """Run one pytest; return its exit code and what its last line counted. Its lines of failed tests are collected."""
    command = [sys.executable, "-m", "pytest", "-q", "-rfEs", "-m", marks, *extra]
    if workers > 1:
        command += ["-n", str(workers)]
    print(f"== {title}", flush=True)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
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
    parser.add_argument("extra", nargs="*", help="more options for pytest")
    options = parser.parse_args()
    worst, total, failures = 0, {"passed": 0, "failed": 0, "skipped": 0}, list[str]()
    for title, marks, parallel in STEPS:
        code, counts = run_step(title, marks, options.workers if parallel else 1, options.extra, failures)
        worst = worst or (0 if code == 5 else code)
        for word, count in counts.items():
            key = "failed" if word == "error" else word
            total[key] = total.get(key, 0) + count
    # Again, where whoever looks at the end of a long log finds them.
    print("\n".join(failures), end="\n" if failures else "")
    print(", ".join(f"{count} {word}" for word, count in total.items() if count or word in ("passed", "failed")))
    return worst or (0 if total["passed"] else 1)


if __name__ == "__main__":
    sys.exit(main())
