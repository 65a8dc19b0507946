"""Applies committed entries to the state machine: a snapshot or entries, in order, in slices of the loop's time.

    idle --an entry is committed and durable here, or a snapshot is installed--> busy --its last step--> idle

Each tick runs one slice. While busy nothing else is applied, no snapshot is captured and none is installed; appends,
votes and commits continue, and a leader is not active before its term's first entry is applied.
"""

from collections.abc import Callable

from kvorum.quorum.raft.commands import voters_of
from kvorum.quorum.raft.leader import Leader
from kvorum.quorum.raft.replica import Replica
from kvorum.quorum.raft.snapshotting import Snapshotting
from kvorum.quorum.steps import Steps


class Applier:
    """See the module. The caller handles exceptions of a step: it ends the node."""

    __slots__ = ("_leader", "_replica", "_snapshotting", "_stopped", "_then", "_work")

    def __init__(self, replica: Replica, leader: Leader, snapshotting: Snapshotting) -> None:
        """Start idle, with nothing applied."""
        self._replica = replica
        self._leader = leader
        self._snapshotting = snapshotting
        self._work: Steps[None] | None = None
        self._then: list[Callable[[], None]] = []
        self._stopped = False

    @property
    def busy(self) -> bool:
        """Whether the state is on its way from one index to the next."""
        return self._work is not None

    def when_idle(self, action: Callable[[], None]) -> None:
        """Call this once the piece of work under way is done."""
        assert self.busy
        self._then.append(action)

    def load_latest(self) -> None:
        """Load the newest snapshot, which is durable and beyond the applied entries, as the state."""
        meta = self._replica.snapshots.latest
        assert meta is not None and not self.busy
        if self._stopped:
            return
        self._replica.core.set_committed(meta.index)
        self._work = self._load(meta.index)
        self.run()

    def _load(self, index: int) -> Steps[None]:
        replica = self._replica
        snapshot = replica.snapshots.open_latest()
        assert snapshot is not None and snapshot.meta.index == index
        try:
            yield from snapshot.check()
            yield from replica.machine.load(snapshot)
        finally:
            snapshot.close()
        replica.core.set_applied(index)

    def run(self) -> None:
        """Apply committed entries for one slice. Only entries that are durable here: a restart must find them again."""
        replica = self._replica
        core, journal, settings = replica.core, replica.journal, replica.settings
        until = replica.now() + settings.apply_slice_s
        last = core.last_applied() + settings.apply_slice
        while not self._stopped:
            if self._work is not None:
                if not self._go_on(self._work, until):
                    break
                continue  # what waited for this may have begun the next
            applied, target = core.last_applied(), min(core.commit_index(), journal.durable_index)
            if applied >= target:
                return
            if applied >= last or replica.now() >= until:
                break
            self._work = self._apply(applied + 1)
        replica.wake()

    def _go_on(self, work: Steps[None], until: float) -> bool:
        """Take steps while there is time; return whether the last one was reached."""
        for _ in work:
            if self._replica.now() >= until or self._stopped:
                return False
        self._work = None
        then, self._then = self._then, []
        for action in then:
            action()
        return True

    def _apply(self, index: int) -> Steps[None]:
        replica = self._replica
        entry = replica.journal[index - replica.journal.first_index]
        assert isinstance(entry, tuple) and entry[1] == index
        command, _, term = entry
        found = voters_of(command)
        if found is not None:
            if replica.voters.applied(index, *found):
                replica.keep_voters()
            if replica.core.is_leader():
                self._leader.recount()
        yield from replica.machine.apply(index, term, command)
        replica.core.set_applied(index)
        self._snapshotting.applied_bytes += len(command)
        if found is not None and replica.core.is_leader():
            self._leader.voters_committed(index)

    def stop(self) -> None:
        """Stop: the process ends."""
        self._stopped = True
        self._work = None  # it has no other user: its open files are closed with it
