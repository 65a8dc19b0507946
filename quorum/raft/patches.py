"""All changes to pysyncobj in one module: its version, the private names in use, the replaced globals.

Importing this module asserts and patches, once for the process. pysyncobj is pinned to 0.3.17, so a failed assertion
here means that another version is installed. Nothing else of the project may touch pysyncobj's module globals.

    createJournal   hands our Journal objects through
    createPoller    no sockets of its own: no epoll descriptor a node
    monotonicTime   the running event loop's time (stock: CLOCK_MONOTONIC_RAW through ctypes, 0.25 s away after an hour)
    pickle          refuses: no byte from a peer or a file is ever unpickled
    Serializer      refuses: snapshots are ours
"""

from asyncio import get_running_loop
from typing import Final, NoReturn

import pysyncobj.syncobj as syncobj
from pysyncobj.journal import Journal
from pysyncobj.version import VERSION as PYSYNCOBJ_VERSION

PINNED_VERSION: Final = "0.3.17"

PRIVATE_METHODS: Final = (
    "__applyLogEntries",
    "__connectedToAnyone",
    "__generateRaftTimeout",
    "__getCurrentLogIndex",
    "__getCurrentLogTerm",
    "__getEntries",
    "__onBecomeLeader",
    "__onMessageReceived",
    "__sendAppendEntries",
    "__setCurrentTerm",
    "__setState",
    "__tryLogCompaction",
)
PRIVATE_ATTRIBUTES: Final = (
    "__connectedNodes",
    "__lastResponseTime",
    "__newAppendEntriesTime",
    "__otherNodes",
    "__raftCommitIndex",
    "__raftCurrentTerm",
    "__raftElectionDeadline",
    "__raftLastApplied",
    "__raftLeader",
    "__raftLog",
    "__raftMatchIndex",
    "__raftNextIndex",
    "__raftState",
    "__transferInProgress",
    "__votedForNodeId",
    "__votesCount",
)
PATCHED_GLOBALS: Final = ("createJournal", "createPoller", "monotonicTime", "pickle", "Serializer")


class _NoPoller:
    """pysyncobj polls its sockets here; it has none."""

    def poll(self, timeout: float) -> None:
        """Return at once."""

    def subscribe(self, descriptor: int, callback: object, mask: int) -> NoReturn:
        """Refuse: nothing of ours opens a socket through pysyncobj."""
        raise AssertionError("pysyncobj opened a socket")


class _NoPickle:
    """Replaces pysyncobj's pickling."""

    @staticmethod
    def dumps(*_: object) -> NoReturn:
        """Refuse."""
        raise AssertionError("pysyncobj wanted to pickle")

    loads = to_bytes = dumps


class _NoSerializer:
    """Replaces pysyncobj's own dumps; QuorumNode never reaches it."""

    def __init__(self, *_: object) -> None:
        """Take and ignore pysyncobj's configuration."""

    def cancelTransmisstion(self, _: object) -> None:
        """Never in progress (the name is pysyncobj's)."""


def loop_time() -> float:
    """Return the running loop's time in seconds: the one clock of elections."""
    return get_running_loop().time()


def _hand_through(journal: object) -> Journal:
    assert isinstance(journal, Journal), "a QuorumNode brings its own journal"
    return journal


def _install() -> None:
    assert PYSYNCOBJ_VERSION == PINNED_VERSION, f"pysyncobj {PYSYNCOBJ_VERSION}: only {PINNED_VERSION} is known"
    for name in PRIVATE_METHODS:
        assert hasattr(syncobj.SyncObj, f"_SyncObj{name}"), name
    names = set(syncobj.SyncObj.__init__.__code__.co_names)
    for name in PRIVATE_ATTRIBUTES:
        assert f"_SyncObj{name}" in names, name
    for name in PATCHED_GLOBALS:
        assert hasattr(syncobj, name), name
    syncobj.createJournal = _hand_through
    syncobj.createPoller = lambda _: _NoPoller()
    syncobj.monotonicTime = loop_time
    syncobj.pickle = _NoPickle
    syncobj.Serializer = _NoSerializer


_install()
