"""Whether a frame, computed again, distributes the same rows over the same tasks.

A mark of the exactly-once sink is valid in a replay only if the task of this number gets the same input. It does when
each task is a chain of row-by-row steps over its own range of offsets: a filter, a projection, a union, a join with a
broadcast table, a Python function. (Computed values may differ between runs; a task's rows are those of one run.) It
may not after a shuffle, or where the splits of a source depend on the machine, as those of files do. A source with
other positions than offsets declares that its partitions are such ranges (`is_determined`).
"""

import hashlib
import pickle
import re
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from kvorum.pipelines.bridge.offsets import OffsetRange

# Row-by-row steps, by the class of RDD that Spark makes of them.
NARROW = {"MapPartitionsRDD", "MapPartitionsWithIndexRDD", "SQLExecutionRDD", "UnionRDD"}
SHUFFLE = re.compile(r"(?<!Broadcast)Exchange\b")
# Of Spark's own Kafka source; its text has topic, partition and offsets.
OF_SPARKS_CONNECTOR = "KafkaBatchInputPartition"
OF_PYTHON = {"PythonInputPartition", "PythonStreamingInputPartition"}


class Undetermined(Exception):
    """Another run may distribute the rows differently; the message says why."""


def layout_of(frame: DataFrame) -> tuple[int, str]:
    """Return the number of tasks of a frame's plan, and a fingerprint of all their input ranges.

    Cost: the splits of the sources are planned; some JVM calls per task. Raises: Undetermined.
    """
    execution: Any = frame._jdf.queryExecution()
    if SHUFFLE.search(execution.executedPlan().toString()):
        raise Undetermined("the plan has a shuffle")
    rdd = execution.toRdd()
    text = "".join(f"{part}\n" for part in _parts(rdd))
    return int(rdd.getNumPartitions()), hashlib.sha256(text.encode()).hexdigest()[:16]


def _parts(rdd: Any) -> Iterator[str]:
    """Iterate over the steps and input ranges that determine the rows of each partition. Raises Undetermined."""
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
        yield from _parts(dependency.rdd())


def source_range(partition: Any) -> str:
    """Return the input of a source's partition: a range of offsets, or one that its source declares to be like it.

    A source declares it by `is_determined = True` on its InputPartition, whose repr names the range: reading it again
    gives the same rows on any machine and at any time. Raises: Undetermined.
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
