"""Requirements of pipelines on this machine: Java and memory for Spark, Python packages, Spark's connector."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Literal, NamedTuple

from kvorum.pipelines.session import connector

JAVA_VERSIONS = (17, 21)
"""Spark 4.2 runs on these."""

OVERHEAD_MIB = 384
"""What the JVM and the Python worker take beyond the heap, at the least."""

VERSION = re.compile(r'version "(?:1\.)?(\d+)')
PACKAGES = ("pyspark", "pyarrow", "pandas", "protobuf", "confluent-kafka", "fastavro", "psycopg")
SERIES = "4.2"
"""Of Spark, that is tested; see pyproject.toml."""
Row = dict[str, str]
MEMORY = re.compile(r"(\d+)([kmgt]?)b?", re.IGNORECASE)
MIB = {"k": 1 / 1024, "": 1 / 1024 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024}


class MachineError(Exception):
    """A missing requirement of the machine, and what to do."""


class Java(NamedTuple):
    """A Java on this machine."""

    path: str
    version: int
    build: str = ""
    """All lines of `java -version`."""


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """Return the Java that Spark would start: $JAVA_HOME's, else the first on the PATH. Raises MachineError."""
    home = environment.get("JAVA_HOME")
    path = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=environment.get("PATH"))
    wanted = " or ".join(str(each) for each in JAVA_VERSIONS)
    if path is None:
        raise MachineError(
            f"java not found on PATH and JAVA_HOME is not set; Spark requires Java {wanted} "
            "(Debian: apt-get install openjdk-17-jre-headless)"
        )
    try:
        answer = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"{path} cannot be run: {error}" + (" (JAVA_HOME names it)" if home else "")) from error
    found = VERSION.search(answer.stderr + answer.stdout)
    if found is None:
        raise MachineError(f"{path} -version returned no version: {answer.stderr.strip()[:200]!r}")
    version = int(found[1])
    if version not in JAVA_VERSIONS:
        raise MachineError(f"{path} is Java {version}; Spark requires {wanted}: set JAVA_HOME")
    return Java(path, version, answer.stderr + answer.stdout)


def mebibytes(text: str) -> int:
    """Return Spark's way of writing memory (1g, 512m) in MiB. Raises ValueError."""
    found = MEMORY.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not an amount of memory, such as 512m or 2g")
    return int(int(found[1]) * MIB[found[2].lower()])


def available_mib(meminfo: str = "/proc/meminfo", cgroup: str = "/sys/fs/cgroup") -> int | None:
    """Return the MiB that a new process can have: the machine's, or what is left of the container's. None: unknown."""
    try:
        fields = dict(line.split(":", 1) for line in Path(meminfo).read_text().splitlines())
        found = [int(fields["MemAvailable"].split()[0]) // 1024]
    except (OSError, KeyError, ValueError):
        return None
    try:
        limit = (Path(cgroup) / "memory.max").read_text().strip()
        if limit != "max":
            used = int((Path(cgroup) / "memory.current").read_text())
            found.append((int(limit) - used) // (1024 * 1024))
    except (OSError, ValueError):
        pass  # no limit of a container's
    return min(found)


def check_memory(wanted: str, available: int | None) -> None:
    """Refuse to start a driver that the machine has no memory for: it would be killed at a bad moment instead."""
    needed = mebibytes(wanted) + OVERHEAD_MIB
    if available is not None and available < needed:
        raise MachineError(
            f"the driver's {wanted} and {OVERHEAD_MIB} MiB beside it need {needed} MiB, and {available} MiB are free: "
            "give it less (--memory), or free some"
        )


def _row(what: str, state: Literal["ok", "missing"], found: str, hint: str = "") -> Row:
    return {"what": what, "state": state, "found": found, "hint": hint}


def examine(memory: str = "1g", jars: str | None = None, environment: Mapping[str, str] = os.environ) -> Iterator[Row]:
    """Yield all requirements, one row each, with what to do if it is missing; raises nothing."""
    try:
        java = find_java(environment)
        yield _row("java", "ok", f"{java.version} ({java.path})")
    except MachineError as error:
        yield _row("java", "missing", "-", str(error))
    available = available_mib()
    free = "unknown" if available is None else f"{available} MiB free"
    try:
        check_memory(memory, available)
        yield _row("memory", "ok", f"{free}, {memory} for the driver")
    except (MachineError, ValueError) as error:
        yield _row("memory", "missing", free, str(error))
    workers = environment.get("PYSPARK_PYTHON", sys.executable)
    hint = "" if workers == sys.executable else f"PYSPARK_PYTHON is {workers}: it needs kvorum[pipelines], too"
    yield _row("python", "ok", f"{'.'.join(map(str, sys.version_info[:3]))} ({workers})", hint)
    for name in PACKAGES:
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield _row(name, "missing", "-", "pip install 'kvorum[pipelines]'")
            continue
        if name == "pyspark" and not version.startswith(f"{SERIES}."):
            hint = f"tested with {SERIES}: pip install '.[pipelines]' in the checkout, or 'WHEEL[pipelines]'"
            yield _row(name, "missing", version, hint)
        else:
            yield _row(name, "ok", version)
    try:
        choice = connector.choose("auto", connector.folder_of_jars(jars, environment), {})
        yield _row("connector", "ok", choice.connector, choice.reason)
    except connector.ConnectorError as error:
        yield _row("connector", "missing", "-", str(error))
