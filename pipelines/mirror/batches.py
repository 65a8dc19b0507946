"""Micro-batches of the mirror: topics first, then the records, then the marks of their offsets.

Order in a batch, and why a crash between any two steps does no harm:

    1. topics and partitions of the source are on the target    made once more, nothing happens
    2. partitions without a mark get their first one            before any record of them is written
    3. the records, by the sink                                 exactly once: what is in is not written again
    4. the target's ends become marks                           the next batch's mark covers what this one did not note

Step 4 reads the target's end while nothing is being written: the sink has fenced all older writers of records, and the
ledger fences all older writers of marks, so a mark is never beyond its true offset.
"""

import json
import logging
import time
from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kvorum.pipelines.bridge import client, offsets, options
from kvorum.pipelines.bridge.exactly_once import ExactlyOnce
from kvorum.pipelines.bridge.ledger import Folder
from kvorum.pipelines.bridge.lookup import Lookup
from kvorum.pipelines.bridge.offsets import LATEST, Offsets, TopicPartition
from kvorum.pipelines.bridge.sink import Delivery, write_batch
from kvorum.pipelines.mirror.ledger import Ledger
from kvorum.pipelines.mirror.metrics import Figures
from kvorum.pipelines.mirror.policy import PROVENANCE, Policy
from kvorum.pipelines.mirror.spec import MirrorSpec
from kvorum.pipelines.mirror.topics import TopicSync

logger = logging.getLogger(__name__)

OFFSETS_VERSION: Final = "v1"
"""Of Spark's file of a micro-batch's ends: version, metadata, then a line a source."""


class BadCheckpoint(RuntimeError):
    """The checkpoint's files are not as they should be."""


class Batches:
    """Function for foreachBatch."""

    def __init__(
        self, spec: MirrorSpec, spark: SparkSession, topics: TopicSync, ledger: Ledger, figures: Figures
    ) -> None:
        """Take what the mirror's loop shares."""
        self._spec = spec
        self._naming = spec.naming
        self._topics = topics
        self._ledger = ledger
        self._figures = figures
        self._offsets = Folder(spark, spec.checkpoint, "offsets")
        self._options = spec.target.settings()
        self._target = Lookup(client.from_options(self._options))
        self._sink = None
        if spec.delivery == "exactly_once":
            self._sink = ExactlyOnce(options.writing(self._options), query=spec.name, checkpoint=spec.checkpoint)

    def check(self, spark: SparkSession) -> None:
        """Refuse a start whose sink's marks are not those of the checkpoint."""
        if self._sink is not None:
            self._sink.check(spark)

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Mirror one micro-batch."""
        began = time.monotonic()
        starts, ends = self._bounds(batch_id)
        self._topics.ensure()
        self._restart_recreated([place for place in ends if self._ledger.map.last(place) is not None])
        fresh = [place for place in ends if self._ledger.map.last(place) is None]
        self._mark({place: starts.get(place, 0) for place in fresh})
        rows = to_target(frame, self._naming, provenance=self._spec.marks_records)
        if self._sink is not None:
            self._sink.write(rows, batch_id)
        else:
            write_batch(rows, self._options, delivery=Delivery.AT_LEAST_ONCE, query=self._spec.name, batch_id=batch_id)
        self._mark({place: end for place, end in ends.items() if end > starts.get(place, 0)})
        figures = self._figures
        figures.mirrored = {**figures.mirrored, **ends}
        figures.batches += 1
        figures.batch_seconds = time.monotonic() - began
        figures.last_batch = time.time()

    def _restart_recreated(self, places: Iterable[TopicPartition]) -> None:
        """Remove the marks of partitions that end before their last mark: their topic was deleted and recreated."""
        for place, end in self._ends(places).items():
            last = self._ledger.map.last(place)
            if last is not None and end < last.target:
                logger.warning(
                    "%s-%d was recreated on %s (it ends at %d, before offset %d of its last mark): its marks are "
                    "removed; what was mirrored to it before is not mirrored again",
                    *(*self._naming.there(place), self._spec.target.alias, end, last.target),
                )
                self._ledger.restart(place)

    def _mark(self, sources: Mapping[TopicPartition, int]) -> None:
        """Mark source offsets with where the target's partitions end now."""
        self._ledger.mark({place: (sources[place], end) for place, end in self._ends(sources).items()})

    def _ends(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where partitions of the target end now; places are by the source's names."""
        wanted = {self._naming.there(place): place for place in places}
        found = self._target.everywhere(wanted, LATEST, is_read_committed=False)
        return {wanted[where]: end for where, end in found.items()}

    def _bounds(self, batch_id: int) -> tuple[Offsets, Offsets]:
        """Return where a micro-batch begins and ends."""
        text = self._offsets.read(str(batch_id))
        if text is None:
            raise BadCheckpoint(f"{self._offsets.root}/{batch_id} does not exist")
        starts, ends = read_offsets(text)
        before = self._offsets.read(str(batch_id - 1)) if batch_id else None
        if before is not None:
            starts = read_offsets(before)[1]
        return starts, ends


def read_offsets(text: str) -> tuple[Offsets, Offsets]:
    """Return, of a micro-batch's file in the checkpoint, where the query began (the first one's only) and its ends.

    Raises: BadCheckpoint.
    """
    lines = text.splitlines()
    try:
        if lines[0] != OFFSETS_VERSION:
            raise ValueError(f"version {lines[0]}")
        read = json.loads(lines[2])
        return offsets.begun_at(read) or {}, offsets.from_json(read)
    except (IndexError, ValueError, TypeError, AttributeError) as error:
        raise BadCheckpoint(f"offsets of a micro-batch cannot be decoded ({error}): {text[:200]!r}") from error


def to_target(frame: DataFrame, naming: Policy, *, provenance: bool) -> DataFrame:
    """Return the rows to write: the target's topic; with provenance, the header added and the target's own left out."""
    headers: Column = F.col("headers")
    if provenance:
        theirs = F.lit(naming.target).cast("binary")
        came = F.exists(headers, lambda header: (header["key"] == F.lit(PROVENANCE)) & (header["value"] == theirs))
        frame = frame.where(~F.coalesce(came, F.lit(False)))
        hop = F.struct(F.lit(PROVENANCE).alias("key"), F.lit(naming.source).cast("binary").alias("value"))
        headers = F.when(headers.isNull(), F.array(hop)).otherwise(F.concat(headers, F.array(hop)))
    return frame.select(
        "key",
        "value",
        F.concat(F.lit(naming.prefix), F.col("topic")).alias("topic"),
        "partition",
        "timestamp",
        headers.alias("headers"),
    )
