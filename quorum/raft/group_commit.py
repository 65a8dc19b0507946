"""The journal's group commits: one at a time, outside the loop, each with all records added since the last one began.

    flush: records to write? -> write and fdatasync, outside the loop -> send dependent frames; flush again

The next segment is preallocated in parallel, once the current one is half full.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from kvorum.quorum.raft.journal import Batch
from kvorum.quorum.raft.replica import Replica
from kvorum.quorum.raft.snapshotting import Snapshotting
from kvorum.runtime import blocking


class GroupCommit:
    """See the module. A failed write ends the node: it is never retried."""

    __slots__ = ("_loop", "_replica", "_snapshotting", "_stopped", "_synced")

    def __init__(self, replica: Replica, snapshotting: Snapshotting, synced: Callable[[float], None]) -> None:
        """Serve one replica; `synced` receives the seconds of each commit. Called inside the running loop."""
        self._loop = asyncio.get_running_loop()
        self._replica = replica
        self._snapshotting = snapshotting
        self._synced = synced
        self._stopped = False

    def stop(self) -> None:
        """Start no further commit. The one in progress may end in any way, and has no effect."""
        self._stopped = True

    def flush(self) -> None:
        """Start a commit if there are records and none is in progress."""
        journal = self._replica.journal
        batch = journal.take()
        if batch is not None:
            work = blocking.run(self._loop, journal.write, batch)
            work.add_done_callback(partial(self._written, batch, self._loop.time()))

    def _written(self, batch: Batch, began: float, work: asyncio.Future[None]) -> None:
        # retrieved: it has no other reader if the node has ended
        error = None if work.cancelled() else work.exception()
        if self._stopped:
            return
        replica, journal = self._replica, self._replica.journal
        if error is not None:
            replica.fail(error)
            return
        self._synced(self._loop.time() - began)
        journal.complete(batch)
        replica.outbox.release()
        if journal.begin_spare():
            blocking.run(self._loop, journal.make_spare).add_done_callback(self._spare_made)
        self._snapshotting.drop_segments()
        self.flush()
        replica.wake()

    def _spare_made(self, work: asyncio.Future[None]) -> None:
        error = work.exception()
        if error is not None:
            self._replica.fail(error)
            return
        self._replica.journal.complete_spare()
        if not self._stopped:
            self.flush()
