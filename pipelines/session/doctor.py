"""Requirements of pipelines on this machine: one row each, with what to do if it is missing."""

import importlib.metadata
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from kvorum.pipelines.session import connector, machine

State = Literal["ok", "missing", "optional"]
PYTHON: Mapping[str, tuple[str, bool]] = {
    # {distribution: (what for, whether nothing runs without it)}
    "pyspark": ("Spark itself", True),
    "pyarrow": ("columns between Spark and Python", True),
    "pandas": ("columns between Spark and Python", True),
    "protobuf": ("Protobuf, and Spark's state in Python", True),
    "confluent-kafka": ("Kvorum's connector", True),
    "fastavro": ("Avro", True),
    "psycopg": ("PostgreSQL as a JDBC source or sink", False),
}
SERIES = (4, 2)
"""What was tried; see pyproject.toml."""
JARS: Mapping[str, str] = {
    # {what a jar's name begins with: what for}
    connector.ARTEFACT: "Spark's own connector for topics; Kvorum's is used without it",
    "delta-spark": "Delta tables",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing. `optional`: not there, and needed for one purpose only."""

    what: str
    state: State
    found: str
    hint: str = ""

    def row(self) -> dict[str, object]:
        """Return it as a row of a table."""
        return asdict(self)


def examine(memory: str = "1g", jars: str | None = None, environment: Mapping[str, str] = os.environ) -> list[Finding]:
    """Look at everything; raises nothing."""
    folder = connector.folder_of_jars(jars, environment)
    return [
        *machine_findings(memory, environment),
        *python_findings(),
        *jar_findings(folder),
        connector_finding(folder),
    ]


def machine_findings(memory: str, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Yield Java, memory, and the Python of the executors."""
    try:
        java = machine.find_java(environment)
        yield Finding(what="java", state="ok", found=f"{java.version} ({java.path})")
    except machine.MachineError as error:
        yield Finding(what="java", state="missing", found="-", hint=str(error))
    available = machine.available_mib()
    found = "unknown" if available is None else f"{available} MiB free"
    try:
        machine.check_memory(memory, available)
        yield Finding(what="memory", state="ok", found=f"{found}, {memory} for the driver")
    except (machine.MachineError, ValueError) as error:
        yield Finding(what="memory", state="missing", found=found, hint=str(error))
    workers = environment.get("PYSPARK_PYTHON")
    version = ".".join(str(part) for part in sys.version_info[:3])
    hint = (
        f"PYSPARK_PYTHON is {workers}: it needs kvorum[pipelines], too" if workers not in (None, sys.executable) else ""
    )
    yield Finding(what="python", state="ok", found=f"{version} ({workers or sys.executable})", hint=hint)


def python_findings() -> Iterator[Finding]:
    """Yield the packages."""
    for name, (purpose, needed) in PYTHON.items():
        extra = "kvorum[pipelines]" if needed else f"{name}[binary]"
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            state: State = "missing" if needed else "optional"
            yield Finding(what=name, state=state, found="-", hint=f"{purpose}: pip install '{extra}'")
            continue
        series = tuple(int(part) for part in found.split(".")[:2] if part.isdigit())
        if name == "pyspark" and series != SERIES:
            tested = ".".join(map(str, SERIES))
            hint = f"tested with {tested}: pip install '.[pipelines]' in the checkout, or 'WHEEL[pipelines]'"
            yield Finding(what=name, state="missing", found=found, hint=hint)
        else:
            yield Finding(what=name, state="ok", found=found)


def jar_findings(folder: str | None) -> Iterator[Finding]:
    """Yield the contents of the jar folder: the connector with its parts, and other modules for Spark."""
    try:
        there = None if folder is None else connector.look_into(folder)
    except connector.ConnectorError as error:
        yield Finding(what="jars", state="missing", found=str(folder), hint=str(error))
        return
    where = (
        f"put it into a folder and name that in ${connector.VARIABLE}" if folder is None else f"put it into {folder}"
    )
    for prefix, purpose in JARS.items():
        paths = [] if there is None else [path for path in there.paths if os.path.basename(path).startswith(prefix)]
        if not paths:
            yield Finding(what=prefix, state="optional", found="-", hint=f"{purpose}: {where}")
        elif prefix == connector.ARTEFACT and there is not None and there.missing:
            lacking = f"beside it are missing: {', '.join(there.missing)}"
            yield Finding(what=prefix, state="missing", found=os.path.basename(paths[0]), hint=lacking)
        else:
            yield Finding(what=prefix, state="ok", found=os.path.basename(paths[0]))


def connector_finding(folder: str | None) -> Finding:
    """Say which connector `auto` would take, and why."""
    try:
        choice = connector.choose("auto", folder, {})
    except connector.ConnectorError as error:
        return Finding(what="connector", state="missing", found="-", hint=str(error))
    return Finding(what="connector", state="ok", found=choice.connector, hint=choice.reason)
