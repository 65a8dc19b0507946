"""Whether a frame, computed again, deals the same rows out to the same tasks.

The exactly-once sink marks a task as written. That means something in a replay only if the task with this number gets
the same input. It does when each task is a chain of row-by-row steps over its own range of offsets: a filter, a
projection, a union, a join with a broadcast table, a Python function. (What the steps make of a row may differ, say a
random number: a task's rows are those of one run.) It is not sure after a shuffle, whose rows come in any order, or
where the splits of a source depend on the machine, as those of files do. A source of ours that keeps positions of
another kind than offsets says that its partitions are such ranges (`is_determined`).
"""

import hashlib
import pickle
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from kvorum.pipelines.bridge.offsets import OffsetRange

# Row-by-row steps, by the class of RDD that Spark makes of them.
NARROW = {"MapPartitionsRDD", "MapPartitionsWithIndexRDD", "SQLExecutionRDD", "UnionRDD"}
SHUFFLE = re.compile(r"(?<!Broadcast)Exchange\b")
# A range of offsets of Spark's own Kafka source; its text names topic, partition and offsets.
OF_SPARKS_CONNECTOR = "KafkaBatchInputPartition"
OF_PYTHON = {"PythonInputPartition", "PythonStreamingInputPartition"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a frame's rows are dealt out to tasks."""

    tasks: int
    fingerprint: str | None  # what every task reads; None if another run may deal out otherwise
    reason: str  # why it may


class Undetermined(Exception):
    """The message says why another run may deal out the rows otherwise."""


def layout_of(frame: DataFrame) -> Layout:
    """Look at a frame's plan. Nothing is computed, but the splits of its sources are planned.

    Cost: some calls to the JVM for each task.
    """
    execution: Any = frame._jdf.queryExecution()
    if SHUFFLE.search(execution.executedPlan().toString()):
        return Layout(tasks=0, fingerprint=None, reason="the plan has a shuffle")
    rdd = execution.toRdd()
    tasks = int(rdd.getNumPartitions())
    digest = hashlib.sha256()
    try:
        for part in parts(rdd):
            digest.update(part.encode() + b"\n")
    except Undetermined as why:
        return Layout(tasks=tasks, fingerprint=None, reason=str(why))
    return Layout(tasks=tasks, fingerprint=digest.hexdigest()[:16], reason="")


def parts(rdd: Any) -> Iterator[str]:
    """Iterate over what determines the rows of each partition, sources and steps in order.

    Raises: Undetermined.
    """
    kind = str(rdd.getClass().getSimpleName())
    if kind == "DataSourceRDD":
        for partition in rdd.partitions():
            yield source_range(partition)
        return
    if kind not in NARROW:
        raise Undetermined(f"the plan has a step with an undefined row order ({kind})")
    dependencies = rdd.dependencies()
    if dependencies.size() == 0:
        raise Undetermined(f"the plan has a source without offsets ({kind})")
    for number in range(dependencies.size()):
        dependency = dependencies.apply(number)
        if "Shuffle" in dependency.getClass().getSimpleName():
            raise Undetermined("the plan has a shuffle")
        yield f"{kind} {number}"
        yield from parts(dependency.rdd())


def source_range(partition: Any) -> str:
    """Return what a source's partition reads, if that is a range of offsets, or one that its source says is like it.

    A source says so by `is_determined = True` on its InputPartition, whose repr names the range: what is read again
    for it comes from the same rows, whatever the machine and the time. Raises: Undetermined.
    """
    given = partition.inputPartition().get()
    kind = str(given.getClass().getSimpleName())
    if kind == OF_SPARKS_CONNECTOR:
        return str(given.toString())
    if kind in OF_PYTHON:
        wanted = pickle.loads(bytes(given.pickedPartition()))
        if isinstance(wanted, OffsetRange) or getattr(wanted, "is_determined", False):
            return repr(wanted)
    raise Undetermined(f"the source's splits are not ranges of offsets ({kind})")
