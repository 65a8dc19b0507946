"""Kill a process with -9 at each failpoint of the quorum's files that needs several voters.

And: every place there is, in any room, is one at which some test has a process die.
"""

import ast
import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from kvorum.chaos.scenario.files import find
from kvorum.quorum.raft.journal import open_journal
from kvorum.quorum.raft.snapshot import SnapshotStore
from kvorum.quorum.snapshots import SnapshotFiles
from kvorum.runtime.disk import OsDisk
from tests.unit.chaos.inside.places import ROOMS, ROOT, calls, places_in
from tests.unit.chaos.inside.quorum_victim import (
    CONTENT,
    ENTRIES,
    FIRST,
    SECOND,
    SEGMENT_BYTES,
    SENT,
    STATE,
    chunks,
    do_checkpoint,
    do_format,
    do_receive,
)

PLACES = {
    "format": ("journal.format.written", "journal.format.renamed"),
    "open": ("journal.cut.before", "journal.cut.written", "journal.cut.after"),
    "receive": (
        *("snapshot.receive.before", "snapshot.receive.after", "snapshot.arrive.before", "snapshot.arrive.after"),
        *("snapshot.install.before", "snapshot.install.synced", "snapshot.rename.before", "snapshot.rename.after"),
        "snapshot.durable",
    ),
    "checkpoint": (
        *("metadata.snapshot.write.before", "metadata.snapshot.write.after", "metadata.snapshot.sync.before"),
        *("metadata.snapshot.sync.after", "metadata.snapshot.rename.after", "metadata.snapshot.durable"),
        "metadata.snapshot.drop.after",
    ),
}
Victims: TypeAlias = "subprocess.Popen[str]"


@pytest.fixture(scope="module")
def victims() -> Iterator[Victims]:
    """The process that forks the ones that die."""
    command = [sys.executable, "-m", "tests.unit.chaos.inside.quorum_victim"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(30) == 0


def dies(victims: "subprocess.Popen[str]", case: str, place: str, folder: Path) -> None:
    assert victims.stdin is not None and victims.stdout is not None
    victims.stdin.write(json.dumps({"case": case, "folder": str(folder), "arm": f"{place}=kill"}) + "\n")
    victims.stdin.flush()
    assert int(victims.stdout.readline()) == -signal.SIGKILL, "the place was never reached"


@pytest.mark.parametrize("place", PLACES["format"])
def test_a_format_that_died_is_done_or_can_be_done_again(place: str, victims: Victims, tmp_path: Path) -> None:
    dies(victims, "format", place, tmp_path)
    if not list(tmp_path.glob("*.journal")):
        do_format(str(tmp_path))
    journal = open_journal(OsDisk(), str(tmp_path), segment_bytes=SEGMENT_BYTES)
    assert (journal.state, journal.last_index) == (STATE, 0)
    journal.close()


@pytest.mark.parametrize("place", PLACES["open"])
def test_a_torn_end_is_truncated_despite_a_kill_during_the_truncation(
    place: str, victims: Victims, tmp_path: Path
) -> None:
    dies(victims, "open", place, tmp_path)
    journal = open_journal(OsDisk(), str(tmp_path), segment_bytes=SEGMENT_BYTES)
    commands = [b"entry %d" % index for index in range(1, ENTRIES + 1)]
    assert [command for command, _, _ in journal] == commands
    journal.add(b"after the crash", ENTRIES + 1, 2)
    journal.sync()
    journal.close()
    again = open_journal(OsDisk(), str(tmp_path), segment_bytes=SEGMENT_BYTES)
    assert [command for command, _, _ in again] == [*commands, b"after the crash"]
    again.close()


@pytest.mark.parametrize("place", PLACES["receive"])
def test_a_received_snapshot_is_whole_or_missing(place: str, victims: Victims, tmp_path: Path) -> None:
    dies(victims, "receive", place, tmp_path)
    store = SnapshotStore(OsDisk(), f"{tmp_path}/follower")
    store.load()
    assert store.latest in (None, SENT)
    assert (store.latest == SENT) == (place in ("snapshot.rename.after", "snapshot.durable"))
    do_receive(str(tmp_path))
    again = SnapshotStore(OsDisk(), f"{tmp_path}/follower")
    again.load()
    assert again.latest == SENT
    snapshot = again.open_latest()
    assert snapshot is not None and snapshot.size == len(CONTENT)
    snapshot.close()


@pytest.mark.parametrize("place", PLACES["checkpoint"])
def test_a_checkpoint_of_the_metadata_is_whole_or_the_one_before_exists(
    place: str, victims: Victims, tmp_path: Path
) -> None:
    dies(victims, "checkpoint", place, tmp_path)
    files = SnapshotFiles(OsDisk(), str(tmp_path))
    ids = files.ids()
    assert ids and set(ids) <= {FIRST, SECOND}
    for each in ids:
        assert b"".join(files.read(each)) == b"".join(chunks(each))
    do_checkpoint(str(tmp_path))
    assert SnapshotFiles(OsDisk(), str(tmp_path)).ids() == [SECOND]


def test_every_place_is_named_once_and_some_test_has_a_process_die_there() -> None:
    named = Counter(name for room in ROOMS for _, name in calls(room))
    assert {name for name, count in named.items() if count > 1} == set()
    source = ast.parse((ROOT / "tests/unit/quorum/raft" / "test_failpoints.py").read_text())
    (raft,) = [
        ast.literal_eval(node.value)
        for node in ast.walk(source)
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "POINTS"
    ]
    here = {place for places in PLACES.values() for place in places}
    by_storage = places_in("storage") | places_in("runtime")
    arms = [(step.model_extra or {}).get("arm") for cell in find("transactions") for step in cell.steps]
    armed = {arm.partition("=")[0] for arm in arms if arm}
    by_scenarios = places_in("broker")
    assert by_scenarios <= armed, "real processes die there, and the checker judges"
    assert set(named) == by_storage | here | set(raft) | by_scenarios
    assert len(named) > 100
