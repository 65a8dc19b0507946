"""Permitted log start of a partition: records that requests or retention may delete. Sans-IO.

A replica's log start offset increases by DeleteRecords, by retention, or after its leader's; each change is checked
against the requests and all retention configs that were in force, and against the committed offset: nothing above the
true high watermark may be deleted. Legally deleted records may return (followers that did not know the leader's start
yet, a log start that was not persisted before a kill -9), so records below the highest legal start are never missing.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

UNTIL_HIGH_WATERMARK: Final = -1
"""DeleteRecords' offset for everything that is committed."""
RETENTION_MS: Final = "retention.ms"
RETENTION_BYTES: Final = "retention.bytes"
SLACK_MS: Final = 5


class RetentionBatch(Protocol):
    """A batch as retention sees it: ledger's Entry."""

    @property
    def next_offset(self) -> int:
        """One past its last record."""
        ...

    @property
    def timestamp(self) -> int:
        """The latest of its records, in milliseconds."""
        ...

    @property
    def size(self) -> int:
        """In bytes."""
        ...


class Retention:
    """All values that were ever in force for one topic: a broker may lag, so no value expires."""

    def __init__(self) -> None:
        """Create it with the defaults, which delete nothing during a run."""
        self._ms: int | None = None
        self._bytes: int | None = None

    def take(self, configs: Mapping[str, str]) -> None:
        """Store a topic's configs."""
        self._ms = least(self._ms, configs.get(RETENTION_MS))
        self._bytes = least(self._bytes, configs.get(RETENTION_BYTES))

    def may_delete(self, removed: Sequence[RetentionBatch], kept_bytes: int, wall_ms: int | None) -> bool:
        """Return whether time or size explains it. `wall_ms` is the replica's, None where its clock has jumped."""
        if self._bytes is not None and kept_bytes >= self._bytes:
            return True
        if self._ms is None:
            return False
        return wall_ms is None or all(each.timestamp + self._ms <= wall_ms + SLACK_MS for each in removed)


def least(known: int | None, value: str | None) -> int | None:
    """Return the stricter of two limits; -1 and None mean no limit."""
    limit = None if value is None or int(value) < 0 else int(value)
    if known is None or limit is None:
        return limit if known is None else known
    return min(known, limit)


class LogStarts:
    """Log starts of one partition."""

    def __init__(self) -> None:
        """Create it without deletions."""
        self.retention = Retention()
        self.highest = 0
        """Records below may be deleted; all records above must exist."""
        self._requested = 0
        self._requested_all = False

    def note_request(self, offset: int) -> None:
        """A DeleteRecords request is sent."""
        self._requested = max(self._requested, offset)
        self._requested_all = self._requested_all or offset == UNTIL_HIGH_WATERMARK

    def rise(self, start: int) -> None:
        """Store that a log begins there, legally or not."""
        self.highest = max(self.highest, start)

    def check_move(
        self,
        before: int,
        after: int,
        *,
        committed_end: int,
        batches: Sequence[RetentionBatch],
        wall_ms: int | None,
    ) -> str | None:
        """Process a replica's new log start `after`; return the violation, None without one.

        `batches` are the replica's batches before.
        """
        if after > committed_end:
            return f"its log starts at {after}, committed is everything below {committed_end}"
        if after <= max(self.highest, self._requested) or self._requested_all:
            self.highest = max(self.highest, after)
            return None
        removed = [each for each in batches if before < each.next_offset <= after]
        kept_bytes = sum(each.size for each in batches if each.next_offset > after)
        if self.retention.may_delete(removed, kept_bytes, wall_ms):
            self.highest = after
            return None
        return (
            f"its log starts at {after}, before at {before}: no request and no retention ever in force "
            f"explains it ({kept_bytes} bytes are kept)"
        )
