"""A controller's Raft directory: formatted once, opened at each start, snapshot and journal checked against each other.

    raft/journal/      DurableJournal; its state record says whose directory it is
    raft/snapshots/    SnapshotStore

These prevent the start: no journal (lost, or never formatted), a damaged one, a damaged snapshot, a journal that begins
later than the newest snapshot ends, another node's or cluster's directory.
"""

from dataclasses import dataclass

from kvorum.quorum.raft.commands import voters_of
from kvorum.quorum.raft.journal import DurableJournal, format_journal, open_journal
from kvorum.quorum.raft.journal_files import SEGMENT_BYTES
from kvorum.quorum.raft.journal_format import JournalCorrupt
from kvorum.quorum.raft.snapshot import SnapshotCorrupt, SnapshotStore
from kvorum.quorum.raft.voters import Endpoints, StoredState, Voters, VoterSet, decode_state, encode_state
from kvorum.runtime.disk import Disk


@dataclass(slots=True, kw_only=True)
class Opened:
    """Result of opening."""

    journal: DurableJournal
    snapshots: SnapshotStore
    voters: Voters


def format_raft(
    disk: Disk,
    path: str,
    *,
    cluster_id: str,
    node_id: int,
    directory_id: bytes,
    voter_ids: list[int],
    directories: VoterSet | None = None,
    endpoints: Endpoints | None = None,
    segment_bytes: int = SEGMENT_BYTES,
) -> None:
    """Create an empty Raft directory. Raises FileExistsError if there is one.

    `directories` are all voters' directory ids if they are known already (one command formats the whole cluster): then
    a majority is sufficient for the first boot. Otherwise the voters agree on them, which needs all of them once.
    `endpoints` make the quorum a dynamic one (KIP-853): they are those of `voter_ids`, whose directories are known;
    none for a node that begins as an observer.
    """
    dynamic = endpoints is not None
    if endpoints is not None:
        assert directories is not None and set(endpoints) == set(voter_ids)
    else:
        assert node_id in voter_ids
    if directories is not None:
        assert set(directories) == set(voter_ids)
        assert node_id not in voter_ids or directories[node_id] == directory_id
    state = StoredState(
        cluster_id=cluster_id,
        node_id=node_id,
        directory_id=bytes(directory_id),
        voter_ids=sorted(voter_ids),
        pins={
            node: bytes(found)
            for node, found in ({node_id: directory_id} if directories is None else directories).items()
        },
        ready=bool(voter_ids) if dynamic else directories is not None or len(voter_ids) == 1,
        forced=[],
        voters={},
        voters_index=0,
        dynamic=dynamic,
        endpoints=endpoints or {},
    )
    format_journal(disk, f"{path}/journal", encode_state(state), segment_bytes=segment_bytes)


def open_raft(disk: Disk, path: str, *, segment_bytes: int = SEGMENT_BYTES) -> Opened:
    """Open a Raft directory: off the loop, it reads all of it. Raises JournalCorrupt, SnapshotCorrupt."""
    snapshots = SnapshotStore(disk, f"{path}/snapshots")
    journal = open_journal(disk, f"{path}/journal", segment_bytes=segment_bytes)
    try:
        snapshots.load()
        _reconcile(journal, snapshots, path)
        voters = Voters(decode_state(journal.state))
        for place in range(1, len(journal)):
            entry = journal[place]
            assert isinstance(entry, tuple)
            found = voters_of(entry[0])
            if found is not None:
                voters.added(entry[1], *found)
        if snapshots.latest is not None and snapshots.latest.voters:
            voters.applied(snapshots.latest.index, dict(snapshots.latest.voters), snapshots.latest.endpoints)
    except BaseException:
        journal.close()
        raise
    return Opened(journal=journal, snapshots=snapshots, voters=voters)


def _reconcile(journal: DurableJournal, snapshots: SnapshotStore, path: str) -> None:
    """Bring the journal in line with the newest snapshot, as a crash between the two may have left them."""
    latest = snapshots.latest
    if latest is None:
        if journal.first_index > 1:
            raise SnapshotCorrupt(f"{path}: the log begins after entry {journal.first_index} without a snapshot")
        return
    if latest.index < journal.first_index:
        raise SnapshotCorrupt(
            f"{path}: the log begins after entry {journal.first_index}, the newest snapshot ends at {latest.index}"
        )
    if journal.term_at(latest.index) != latest.term:
        journal.reset(latest.index, latest.term)
        journal.sync()


def check_identity(state: StoredState, *, cluster_id: str, node_id: int, voter_ids: list[int]) -> None:
    """Raise JournalCorrupt unless the directory belongs to this node of this cluster with these voters.

    A dynamic quorum's voters are in its log: those in the configuration are left over from before an upgrade.
    """
    if state.dynamic:
        voter_ids = state.voter_ids
    found = (state.cluster_id, state.node_id, state.voter_ids)
    wanted = (cluster_id, node_id, sorted(voter_ids))
    if found != wanted:
        raise JournalCorrupt(f"formatted for (cluster, node, voters) {found}, configured are {wanted}")
