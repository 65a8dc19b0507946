"""When to write a snapshot, and which entries can be removed once it is durable."""

import asyncio
from functools import partial

from kvorum.quorum.raft.log import SnapshotId, SnapshotSource
from kvorum.quorum.raft.replica import Replica
from kvorum.quorum.raft.snapshot import SnapshotMeta
from kvorum.runtime import blocking

Waiting = list[asyncio.Future[SnapshotId | None]]


class Snapshotting:
    """By size and by age, one at a time, outside the loop; the state is captured on the loop."""

    __slots__ = (
        *("_dropping", "_last_at", "_replica", "_started", "_waiting", "_writing"),
        *("applied_bytes", "source", "written_at", "written_bytes"),
    )

    def __init__(self, replica: Replica) -> None:
        """Serve one replica."""
        self._replica = replica
        self.source: SnapshotSource | None = None
        self.applied_bytes = 0
        """Applied since the last snapshot began."""
        self._last_at = self.written_at = replica.now()
        """Time of the last one, or of the start of this node."""
        self.written_bytes = 0
        self._writing = False
        self._dropping = False
        self._waiting: Waiting = []
        self._started: Waiting = []

    def request(self, future: asyncio.Future[SnapshotId | None]) -> None:
        """Write one as soon as possible; the future gets its id."""
        self._waiting.append(future)
        self._replica.wake()

    @property
    def is_busy(self) -> bool:
        """Whether one is being written, or about to be."""
        return self._writing or bool(self._waiting)

    def _has_news(self) -> bool:
        latest = self._replica.snapshots.latest
        return self._replica.core.last_applied() > (latest.index if latest else 1)

    def maybe_start(self) -> None:
        """Start a snapshot if one is due and none is under way."""
        replica, settings = self._replica, self._replica.settings
        if self._writing or self.source is None:
            return
        due = self.applied_bytes >= settings.snapshot_bytes or (
            self.applied_bytes > 0 and 0 < settings.snapshot_interval_s <= replica.now() - self._last_at
        )
        if not due and not self._waiting:
            return
        self._started, self._waiting = self._waiting, []
        if not self._has_news():
            self._answer(None)
            return
        index = replica.core.last_applied()
        term = replica.journal.term_at(index)
        assert term is not None, "what is applied is in the log, or is a snapshot's end"
        meta = SnapshotMeta(
            index=index,
            term=term,
            snapshot_id=replica.machine.snapshot_id(),
            voters=dict(replica.voters.committed or {}),
            endpoints=dict(replica.voters.state.endpoints) or None,
        )
        self._writing = True
        self.applied_bytes = 0
        self._last_at = replica.now()
        chunks = self.source.capture().chunks
        work = blocking.run(asyncio.get_running_loop(), replica.snapshots.write, meta, chunks)
        work.add_done_callback(partial(self._written, meta))

    def _answer(self, snapshot_id: SnapshotId | None) -> None:
        started, self._started = self._started, []
        for future in started:
            if not future.done():
                future.set_result(snapshot_id)

    @property
    def age_s(self) -> float:
        """Time since the last one was written here, or since the start."""
        return self._replica.now() - self.written_at

    def _written(self, meta: SnapshotMeta, work: asyncio.Future[int]) -> None:
        replica, journal = self._replica, self._replica.journal
        self._writing = False
        error = work.exception()
        if error is not None:
            replica.fail(error)
            return
        self.written_bytes, self.written_at = work.result(), replica.now()
        replica.snapshots.adopt(meta)
        self._answer(meta.snapshot_id)
        cut = meta.index - replica.settings.retained_entries
        if cut > journal.first_index:
            journal.start_at(min(cut, journal.last_index))
        replica.wake()

    def drop_segments(self) -> None:
        """Remove journal segments that a durable snapshot covers."""
        replica = self._replica
        numbers = replica.journal.droppable()
        if numbers and not self._dropping:
            self._dropping = True
            work = blocking.run(asyncio.get_running_loop(), replica.journal.drop, numbers)
            work.add_done_callback(self._dropped)

    def _dropped(self, work: asyncio.Future[None]) -> None:
        self._dropping = False
        error = work.exception()
        if error is not None:
            self._replica.fail(error)
