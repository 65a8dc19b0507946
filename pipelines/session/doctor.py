"""Requirements of pipelines on this machine: one row each, with what to do if it is missing."""

import os
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Literal

from kvorum.pipelines.session import connector, machine

PACKAGES = ("pyspark", "pyarrow", "pandas", "protobuf", "confluent-kafka", "fastavro", "psycopg")
SERIES = "4.2"
"""Of Spark, that is tested; see pyproject.toml."""
Row = dict[str, str]


def row(what: str, state: Literal["ok", "missing"], found: str, hint: str = "") -> Row:
    """Return one requirement."""
    return {"what": what, "state": state, "found": found, "hint": hint}


def examine(memory: str = "1g", jars: str | None = None, environment: Mapping[str, str] = os.environ) -> Iterator[Row]:
    """Yield all requirements; raises nothing."""
    try:
        java = machine.find_java(environment)
        yield row("java", "ok", f"{java.version} ({java.path})")
    except machine.MachineError as error:
        yield row("java", "missing", "-", str(error))
    available = machine.available_mib()
    free = "unknown" if available is None else f"{available} MiB free"
    try:
        machine.check_memory(memory, available)
        yield row("memory", "ok", f"{free}, {memory} for the driver")
    except (machine.MachineError, ValueError) as error:
        yield row("memory", "missing", free, str(error))
    workers = environment.get("PYSPARK_PYTHON", sys.executable)
    hint = "" if workers == sys.executable else f"PYSPARK_PYTHON is {workers}: it needs kvorum[pipelines], too"
    yield row("python", "ok", f"{'.'.join(map(str, sys.version_info[:3]))} ({workers})", hint)
    for name in PACKAGES:
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield row(name, "missing", "-", "pip install 'kvorum[pipelines]'")
            continue
        if name == "pyspark" and not version.startswith(f"{SERIES}."):
            hint = f"tested with {SERIES}: pip install '.[pipelines]' in the checkout, or 'WHEEL[pipelines]'"
            yield row(name, "missing", version, hint)
        else:
            yield row(name, "ok", version)
    try:
        choice = connector.choose("auto", connector.folder_of_jars(jars, environment), {})
        yield row("connector", "ok", choice.connector, choice.reason)
    except connector.ConnectorError as error:
        yield row("connector", "missing", "-", str(error))
