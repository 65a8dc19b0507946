"""A process that dies at a failpoint of the quorum's files: `python quorum_victim.py` forks one for each line it reads.

In: {"case": "format", "folder": ..., "arm": "journal.format.written=kill"}. Out: the exit code, a line each.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from kvorum.quorum.raft.journal import format_journal, open_journal
from kvorum.quorum.raft.log import SnapshotId
from kvorum.quorum.raft.snapshot import SnapshotMeta, SnapshotStore, snapshot_name
from kvorum.quorum.snapshots import SnapshotFiles
from kvorum.runtime import failpoints
from kvorum.runtime.disk import OsDisk

STATE = b"whose directory it is"
SEGMENT_BYTES = 4096
ENTRIES = 5
SENT = SnapshotMeta(index=9, term=2, snapshot_id=SnapshotId(end_offset=90, epoch=2), voters={1: bytes(16)})
CONTENT = bytes(range(256)) * 40
PIECE = 4000
FIRST, SECOND = SnapshotId(end_offset=10, epoch=1), SnapshotId(end_offset=20, epoch=1)


def chunks(name: SnapshotId) -> Iterator[bytes]:
    """A checkpoint's content, in pieces."""
    for number in range(4):
        yield f"{name.end_offset} {number} ".encode() * 100


def prepare_nothing(folder: str) -> None:
    """A folder as it is."""


def prepare_torn(folder: str) -> None:
    """A journal whose last block a crash tore."""
    format_journal(OsDisk(), folder, STATE, segment_bytes=SEGMENT_BYTES)
    journal = open_journal(OsDisk(), folder, segment_bytes=SEGMENT_BYTES)
    for index in range(1, ENTRIES + 1):
        journal.add(b"entry %d" % index, index, 1)
        journal.sync()
    end = journal._file_position
    journal.add(b"torn", ENTRIES + 1, 1)
    journal.sync()
    journal.close()
    (path,) = Path(folder).glob("*.journal")
    with open(path, "r+b") as file:
        file.seek(end + 20)
        file.write(b"\xff" * 10)


def prepare_sent(folder: str) -> None:
    """A leader's snapshot."""
    store = SnapshotStore(OsDisk(), f"{folder}/leader")
    store.load()
    store.write(SENT, iter((CONTENT,)))


def prepare_checkpoint(folder: str) -> None:
    """A copy of the metadata log with one checkpoint."""
    SnapshotFiles(OsDisk(), folder).write(FIRST, chunks(FIRST))


def do_format(folder: str) -> None:
    """Format a journal."""
    format_journal(OsDisk(), folder, STATE, segment_bytes=SEGMENT_BYTES)


def do_open(folder: str) -> None:
    """Open it, which cuts its torn end."""
    open_journal(OsDisk(), folder, segment_bytes=SEGMENT_BYTES).close()


def do_receive(folder: str) -> None:
    """Receive the leader's snapshot in pieces."""
    data = Path(f"{folder}/leader/{snapshot_name(SENT.index, SENT.term)}").read_bytes()
    store = SnapshotStore(OsDisk(), f"{folder}/follower")
    store.load()
    position = 0
    while position < len(data):
        piece = data[position : position + PIECE]
        position = store.receive(SENT.index, SENT.term, len(data), position, piece)
    store.adopt(store.install(*store.detach()))


def do_checkpoint(folder: str) -> None:
    """Write the next checkpoint, and let go of the one before."""
    files = SnapshotFiles(OsDisk(), folder)
    files.write(SECOND, chunks(SECOND))
    files.delete_before(SECOND.end_offset)


CASES: dict[str, tuple[Callable[[str], None], Callable[[str], None]]] = {
    "format": (prepare_nothing, do_format),
    "open": (prepare_torn, do_open),
    "receive": (prepare_sent, do_receive),
    "checkpoint": (prepare_checkpoint, do_checkpoint),
}


def main() -> None:
    """Fork one for each line."""
    for line in sys.stdin:
        case = json.loads(line)
        pid = os.fork()
        if pid == 0:
            try:
                prepare, do = CASES[case["case"]]
                prepare(case["folder"])
                failpoints.arm(case["arm"])
                do(case["folder"])
                os._exit(0)
            except BaseException:
                sys.excepthook(*sys.exc_info())
                sys.stderr.flush()
                os._exit(1)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
