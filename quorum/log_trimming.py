"""Trims a controller's stored metadata log after Raft has written a snapshot.

Raft writes snapshots by itself (metadata.log.max.record.bytes.between.snapshots,
metadata.log.max.snapshot.interval.ms). The stored log then starts a new segment, is synced, and keeps the records after
the snapshot *before* the newest one, so that a broker that is a little behind continues with Fetch. Above
metadata.max.retention.bytes everything up to the newest snapshot is removed.
"""

import asyncio
from collections.abc import Callable

from kvorum.quorum.metadata_store import MetadataStore
from kvorum.quorum.raft.log import MetadataLog, SnapshotView
from kvorum.runtime.config import Settings
from kvorum.runtime.logs import get_logger

log = get_logger("quorum")


class LogTrimming:
    """A MetadataLogListener, registered after the store: checks at each batch for a new snapshot."""

    def __init__(
        self,
        metadata_log: MetadataLog,
        store: MetadataStore,
        settings: Settings,
        *,
        on_fault: Callable[[BaseException], None],
    ) -> None:
        """Prepare. `on_fault` ends the process: the log's disk failed."""
        self._log = metadata_log
        self._store = store
        self._on_fault = on_fault
        self._retention_bytes = settings.int("metadata.max.retention.bytes")
        self._newest = 0
        self._task: asyncio.Task[None] | None = None

    def on_batch_applied(self, base_offset: int, epoch: int, timestamp_ms: int, batch: bytes) -> None:
        """Trim if a snapshot was written since the last look."""
        newest = self._log.log_start_offset
        if newest > self._newest and self._task is None:
            previous, self._newest = self._newest, newest
            self._task = asyncio.get_running_loop().create_task(self._trim(previous, newest))
            self._task.add_done_callback(self._done)

    def on_snapshot_loaded(self, snapshot: SnapshotView) -> None:
        """Record the initial snapshot."""
        self._newest = snapshot.snapshot_id.end_offset

    def on_leader_changed(self, leader_id: int | None, epoch: int) -> None:
        """See MetadataLogListener."""

    def on_active(self, epoch: int) -> None:
        """See MetadataLogListener."""

    def on_inactive(self) -> None:
        """See MetadataLogListener."""

    async def close(self) -> None:
        """Wait for work in progress."""
        if self._task is not None:
            await asyncio.wait((self._task,))

    async def _trim(self, previous: int, newest: int) -> None:
        await self._store.begin_segment()
        large = self._store.log_size > self._retention_bytes >= 0
        self._store.trim(newest if large else previous)
        log.info("metadata log trimmed", snapshot=newest, log_start_offset=self._store.log_start_offset)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("metadata log not trimmed", reason=repr(error))
            self._on_fault(error)
