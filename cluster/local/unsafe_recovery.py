"""`kvorum quorum readmit`: an operator readmits a controller that lost its directory, when no majority is left.

A controller that lost its directory and was formatted again has a new directory id, and does not vote: entries that it
acknowledged are gone, so its vote could elect a leader without them. While a majority of intact controllers lives, it
catches up and is readmitted automatically. If the rest of that majority is lost too, no leader can be elected until an
operator gives up the entries that only the lost directories had.

This decision is pinned in the directory of a surviving controller (StoredState.forced, quorum/raft/voters.py), which
sends it to the readmitted one as soon as both run. It is written offline, with the survivor's controller stopped and
its lock held, so that no remote request can do this, nor a script on the wrong cluster.
"""

from contextlib import ExitStack
from dataclasses import dataclass

from kvorum.cluster.local.formatting import controller_directory, raft_directory
from kvorum.cluster.process.exits import Exit
from kvorum.cluster.process.hosting import Refusal
from kvorum.cluster.process.identity import identity_of, lock_directory
from kvorum.protocol.batch_header import parse_header
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.raft.commands import BATCH_PREFIX, PREFIX_SIZE
from kvorum.quorum.raft.journal_format import JournalCorrupt
from kvorum.quorum.raft.opening import Opened, check_identity, open_raft
from kvorum.quorum.raft.snapshot import SnapshotCorrupt
from kvorum.quorum.raft.voters import encode_state
from kvorum.runtime.config import Settings
from kvorum.runtime.disk import Disk
from kvorum.runtime.listeners import voters
from kvorum.runtime.logs import get_logger

log = get_logger("quorum")


@dataclass(frozen=True, slots=True, kw_only=True)
class Survivor:
    """Contents of a surviving controller directory, so that an operator can judge the loss."""

    node_id: int
    directory: str
    directory_id: Uuid
    end_offset: int
    """One past the last metadata record in its log; records from here to the lost logs' ends are given up."""
    epoch: int
    """The epoch of its last entry. The log with the higher epoch is newer; with equal epochs the longer one."""
    voter_ids: tuple[int, ...]
    counted: dict[int, Uuid]
    """The directory that counts for each voter, as known here."""


def look(disk: Disk, settings: Settings) -> Survivor:
    """Return the state in a stopped controller's directory without changes. Raises Refusal."""
    with ExitStack() as stack:
        return _survivor(settings, _open(disk, settings, stack))


def readmit(disk: Disk, settings: Settings, node_id: int, directory_id: Uuid) -> Survivor:
    """Count a voter with this directory from now on, by this controller's decision alone, durably.

    Raises Refusal.

    Entries committed only on lost directories are given up. A repetition changes nothing; with another directory, that
    one counts.
    """
    with ExitStack() as stack:
        opened = _open(disk, settings, stack)
        check_target(_survivor(settings, opened), node_id, directory_id)
        opened.voters.force(node_id, bytes(directory_id))
        opened.journal.set_state(encode_state(opened.voters.state))
        opened.journal.sync()
        log.warning("controller readmitted by operator", voter=node_id, directory_id=str(directory_id))
        return _survivor(settings, opened)


def check_target(survivor: Survivor, node_id: int, directory_id: Uuid) -> None:
    """Raise Refusal unless this is another voter of the quorum and the directory one that does not count yet."""
    if node_id == survivor.node_id:
        raise Refusal(
            Exit.USAGE,
            f"{survivor.directory} belongs to node {node_id} itself: run this on a controller that kept its directory",
        )
    if node_id not in survivor.voter_ids:
        known = ", ".join(map(str, survivor.voter_ids))
        raise Refusal(Exit.USAGE, f"node {node_id} is not a controller of this cluster; controllers: {known}")
    if survivor.counted.get(node_id) == directory_id:
        raise Refusal(Exit.USAGE, f"node {node_id} is already readmitted with directory {directory_id}")


def _open(disk: Disk, settings: Settings, stack: ExitStack) -> Opened:
    """Open the controller's directory as its process would, lock first; all is released with the stack."""
    if "controller" not in settings.list("process.roles"):
        raise Refusal(
            Exit.USAGE, f"node {settings.int('node.id')} is not a controller: give one that kept its directory"
        )
    folder = controller_directory(settings)
    identity = identity_of(disk, settings, folder)
    lock_directory(disk, folder, stack)
    try:
        opened = open_raft(disk, raft_directory(settings))
    except (JournalCorrupt, SnapshotCorrupt, FileNotFoundError) as error:
        raise Refusal(Exit.DATA_REFUSED, str(error)) from error
    stack.callback(opened.journal.close)
    try:
        check_identity(
            opened.voters.state,
            cluster_id=identity.cluster_id,
            node_id=identity.node_id,
            voter_ids=sorted(voters(settings)),
        )
    except JournalCorrupt as error:
        raise Refusal(Exit.DATA_REFUSED, str(error)) from error
    own = opened.voters.state.directory_id
    if not opened.voters.may_vote() or opened.voters.newest(opened.voters.node_id) != own:
        raise Refusal(
            Exit.DATA_REFUSED,
            f"{folder} was lost as well and is not readmitted: give a controller that kept its directory",
        )
    return opened


def _survivor(settings: Settings, opened: Opened) -> Survivor:
    state, last = opened.voters.state, opened.journal.last_index
    return Survivor(
        node_id=state.node_id,
        directory=controller_directory(settings),
        directory_id=Uuid(state.directory_id),
        end_offset=_end_offset(opened),
        epoch=opened.journal.term_at(last) or 0,
        voter_ids=tuple(opened.voters.ids),
        counted={node_id: Uuid(found) for node_id, found in sorted(opened.voters.pins().items())},
    )


def _end_offset(opened: Opened) -> int:
    """Return one past the last metadata record in the log, committed or not."""
    journal = opened.journal
    for place in range(len(journal) - 1, 0, -1):
        entry = journal[place]
        assert isinstance(entry, tuple)
        if entry[0].startswith(BATCH_PREFIX):
            return parse_header(entry[0], PREFIX_SIZE).next_offset
    latest = opened.snapshots.latest
    return latest.snapshot_id.end_offset if latest is not None else 0
