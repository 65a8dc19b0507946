"""The marks of the exactly-once sink: which micro-batch each task of a query has written, as committed offsets.

A mark is committed in the transaction that writes the rows, so either both exist or neither. It is stored in a consumer
group named after the query, as the offset of partition <task> of the marks topic:

    offset    the micro-batch that this task writes next
    metadata  {"lineage": the checkpoint that numbers the micro-batches, "layout": how rows are distributed over tasks}

No consumer of this group reads that topic; only its partition numbers are used. Tasks beyond its partition count use a
second group, a third, and so on.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

import confluent_kafka

from kvorum.pipelines.bridge.client import OptionError

MARKS_TOPIC = "__consumer_offsets"  # exists on every cluster with groups, and is never deleted
NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
NEVER = -1  # before the first micro-batch


class MarkError(RuntimeError):
    """Marks and checkpoint are inconsistent; continuing could lose or duplicate rows."""


class MarksMissing(MarkError):
    """A mark that must exist does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A task's last write."""

    batch_id: int  # NEVER before the first
    lineage: str
    layout: str


def decode(offset: int, metadata: str | None) -> Mark | None:
    """Return a committed offset as a mark, or None without one. Raises MarkError for another application's offset."""
    if offset < 0:
        return None
    try:
        read = json.loads(metadata or "")
        return Mark(batch_id=offset - 1, lineage=str(read["lineage"]), layout=str(read["layout"]))
    except (ValueError, TypeError, KeyError):
        raise MarkError(
            f"offset {offset} with metadata {metadata!r} is not a mark: another application uses this group"
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Location of a query's marks. Raises OptionError for a name that is not a valid part of a group's name."""

    query: str
    span: int  # partitions of the marks topic

    def __post_init__(self) -> None:
        """Check the name."""
        if not NAME.fullmatch(self.query):
            raise OptionError(f"the name of a query may contain letters, digits, '.', '_' and '-' only: {self.query!r}")

    def transactional_id(self, task: int) -> str:
        """Return the id that all attempts at a task share: the latest fences earlier ones."""
        return f"kvorum-sink-{self.query}-{task}"

    def group(self, task: int) -> str:
        """Return the group of a task's mark."""
        more = task // self.span
        return f"kvorum-sink-{self.query}" + (f":{more}" if more else "")

    def partition(self, task: int) -> int:
        """Return the partition of a task's mark."""
        return task % self.span

    def committed(self, task: int, mark: Mark) -> confluent_kafka.TopicPartition:
        """Return a mark as an offset to commit."""
        metadata = json.dumps({"lineage": mark.lineage, "layout": mark.layout}, separators=(",", ":"))
        return confluent_kafka.TopicPartition(MARKS_TOPIC, self.partition(task), mark.batch_id + 1, metadata=metadata)

    def by_group(self, tasks: Iterable[int]) -> dict[str, list[int]]:
        """Return {group: tasks}."""
        groups: dict[str, list[int]] = {}
        for task in tasks:
            groups.setdefault(self.group(task), []).append(task)
        return groups


def is_written(found: Mark | None, wanted: Mark, query: str, task: int) -> bool:
    """Return whether a task has written the rows of mark `wanted`. Raises MarkError if `found` does not decide it."""
    of = f"query {query}, micro-batch {wanted.batch_id}, task {task}"
    if found is None:
        raise MarksMissing(f"{of}: its mark is gone (offsets.retention.minutes?)")
    if found.lineage != wanted.lineage:
        raise MarkError(f"{of}: another query with this name and another checkpoint wrote in the meantime")
    if found.batch_id > wanted.batch_id:
        raise MarkError(
            f"{of}: micro-batch {found.batch_id} is written already. Either this is a late attempt, or the"
            " checkpoint was restored to an older state: use a new one."
        )
    if found.batch_id == wanted.batch_id and found.layout != wanted.layout:
        raise MarkError(
            f"{of}: it is written already, but its rows were assigned to other tasks ({found.layout}, now"
            f" {wanted.layout}). Start once with the previous source options and cluster size."
        )
    return found.batch_id == wanted.batch_id
