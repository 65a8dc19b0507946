"""A controller's lost directory: what `format` gives it instead, and how an operator counts it in, offline."""

import shutil
from functools import partial
from pathlib import Path

import pytest

from kvorum.cluster.local import formatting
from kvorum.cluster.local.formatting import FormatError, controller_directory, format_node, raft_directory
from kvorum.cluster.local.local import LocalCluster
from kvorum.cluster.local.plan import plan_of
from kvorum.cluster.local.unsafe_recovery import look, readmit
from kvorum.cluster.process.exits import Exit
from kvorum.cluster.process.hosting import Refusal
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.raft.commands import voters_command
from kvorum.quorum.raft.opening import format_raft, open_raft
from kvorum.quorum.raft.voters import StoredState, Voters
from kvorum.runtime.cluster_file import dev_cluster
from kvorum.runtime.config import Settings
from kvorum.runtime.config_files import load_node
from kvorum.runtime.disk import OsDisk
from kvorum.storage.checkpoints import LOCK, read_meta_properties

CLUSTER_ID = "q2dDxX0qSi6ZGo5pjBP2lw"
OTHER_ID = Uuid(bytes(15) + b"\x07")


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalCluster:
    """Three combined nodes, formatted (with small journals) and never started."""
    monkeypatch.setattr(formatting, "format_raft", partial(format_raft, segment_bytes=64 * 1024))
    folder = str(tmp_path / "c")
    return LocalCluster.create(folder, plan_of(dev_cluster(3, 0, folder), CLUSTER_ID))


def settings_of(cluster: LocalCluster, name: str) -> Settings:
    return load_node(cluster.node(name).config, environment={}).settings


def stored(settings: Settings) -> StoredState:
    """Return what a controller's journal says of the voters."""
    opened = open_raft(OsDisk(), raft_directory(settings))
    opened.journal.close()
    return opened.voters.state


def commit_voters(settings: Settings) -> dict[int, bytes]:
    """Put the first VOTERS command into a journal, as a first leader would, and note it as committed."""
    opened = open_raft(OsDisk(), raft_directory(settings))
    voters = dict(opened.voters.state.pins)
    opened.journal.add(voters_command(voters), 1, 1)
    opened.journal.sync()
    opened.journal.close()
    return voters


def lose(settings: Settings) -> None:
    shutil.rmtree(controller_directory(settings))


def test_formatting_twice_is_refused_and_complete_directories_are_unchanged(cluster: LocalCluster) -> None:
    settings = settings_of(cluster, "node-2")
    before = read_meta_properties(OsDisk(), controller_directory(settings))
    with pytest.raises(FormatError, match="formatted already"):
        format_node(OsDisk(), settings, CLUSTER_ID)
    assert format_node(OsDisk(), settings, CLUSTER_ID, ignore_formatted=True) == []
    assert read_meta_properties(OsDisk(), controller_directory(settings)) == before


def test_another_clusters_directory_is_refused_by_every_command(cluster: LocalCluster) -> None:
    with pytest.raises(FormatError, match=CLUSTER_ID):
        format_node(OsDisk(), settings_of(cluster, "node-2"), "another-cluster", ignore_formatted=True)


def test_a_lost_directory_is_formatted_with_a_new_id_and_does_not_vote(cluster: LocalCluster) -> None:
    settings = settings_of(cluster, "node-2")
    before = stored(settings)
    lose(settings)
    formatted = cluster.format_lost("node-2")
    assert list(formatted) == [controller_directory(settings)], "the broker's directory is whole"
    after = stored(settings)
    assert after.directory_id == formatted[controller_directory(settings)] != before.directory_id
    assert after.pins == {2: after.directory_id} and not after.ready
    assert not Voters(after).may_vote() and Voters(before).may_vote()


def test_remains_of_a_controllers_directory_are_not_overwritten(cluster: LocalCluster) -> None:
    """Only meta.properties is gone: the journal would be passed off as another directory's."""
    settings = settings_of(cluster, "node-2")
    (Path(controller_directory(settings)) / "meta.properties").unlink()
    with pytest.raises(FormatError, match="contains raft"):
        cluster.format_lost("node-2")


def test_a_survivor_counts_the_new_directory_and_informs_it(cluster: LocalCluster) -> None:
    survivor, lost = settings_of(cluster, "node-3"), settings_of(cluster, "node-2")
    commit_voters(survivor)
    lose(lost)
    directory_id = cluster.format_lost("node-2")[controller_directory(lost)]
    found = look(OsDisk(), survivor)
    assert (found.node_id, found.voter_ids, found.epoch, found.end_offset) == (3, (1, 2, 3), 1, 0)
    assert found.counted[2] != directory_id
    assert readmit(OsDisk(), survivor, 2, directory_id).counted[2] == directory_id
    one, two = Voters(stored(survivor)), Voters(stored(lost))
    one.hello(2, directory_id, two.pins(), two.state.forced)
    two.hello(3, one.state.directory_id, one.pins(), one.state.forced)
    assert one.counts(2) and two.counts(3) and two.may_vote() and one.may_stand()


def test_looking_changes_nothing(cluster: LocalCluster) -> None:
    survivor = settings_of(cluster, "node-3")
    before = stored(survivor)
    look(OsDisk(), survivor)
    assert stored(survivor) == before


def test_two_pins_of_an_operator_coexist(cluster: LocalCluster) -> None:
    survivor = settings_of(cluster, "node-3")
    commit_voters(survivor)
    one, two = Uuid(bytes(15) + b"\x01"), Uuid(bytes(15) + b"\x02")
    readmit(OsDisk(), survivor, 1, one)
    assert readmit(OsDisk(), survivor, 2, two).counted | {3: b""} == {1: one, 2: two, 3: b""}
    assert readmit(OsDisk(), survivor, 2, OTHER_ID).counted | {3: b""} == {1: one, 2: OTHER_ID, 3: b""}


def refusal(settings: Settings, node_id: int, directory_id: Uuid = OTHER_ID) -> Refusal:
    with pytest.raises(Refusal) as caught:
        readmit(OsDisk(), settings, node_id, directory_id)
    return caught.value


def test_invalid_readmissions_are_refused_with_the_reason(cluster: LocalCluster) -> None:
    survivor = settings_of(cluster, "node-3")
    before = stored(survivor)
    assert "belongs to node 3 itself" in refusal(survivor, 3).reason
    assert "controllers: 1, 2, 3" in refusal(survivor, 4).reason
    assert "already" in refusal(survivor, 2, Uuid(before.pins[2])).reason
    assert stored(survivor) == before


def test_a_running_controller_is_not_touched(cluster: LocalCluster) -> None:
    survivor = settings_of(cluster, "node-3")
    with OsDisk().lock(f"{controller_directory(survivor)}/{LOCK}") as locked:
        assert locked
        assert refusal(survivor, 2).code is Exit.BUSY


def test_a_controller_that_lost_its_directory_cannot_readmit(cluster: LocalCluster) -> None:
    settings = settings_of(cluster, "node-2")
    lose(settings)
    cluster.format_lost("node-2")
    assert "was lost as well" in refusal(settings, 1).reason


def test_a_controller_with_a_damaged_journal_cannot_readmit(cluster: LocalCluster) -> None:
    survivor = settings_of(cluster, "node-3")
    path = next((Path(raft_directory(survivor)) / "journal").glob("*.journal"))
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)
    found = refusal(survivor, 2)
    assert found.code is Exit.DATA_REFUSED and str(path) in found.reason


def dynamic_settings(folder: Path, node_id: int) -> Settings:
    return Settings.of(
        {
            "process.roles": "controller",
            "node.id": node_id,
            "listeners": f"CONTROLLER://127.0.0.1:2909{node_id}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": "127.0.0.1:29091",
            "log.dirs": str(folder / str(node_id)),
        }
    )


def test_a_pin_also_counts_in_a_dynamic_quorum(tmp_path: Path) -> None:
    """The directory is a voter's, formatted again as an observer; it cannot speak for itself, another one can."""
    ids = {number: Uuid(bytes([number]) * 16) for number in (1, 2, 3)}
    text = ",".join(f"{number}@127.0.0.1:2909{number}:{directory}" for number, directory in ids.items())
    initial = formatting.parse_initial_controllers(text, "CONTROLLER")
    own, lost = dynamic_settings(tmp_path, 1), dynamic_settings(tmp_path, 3)
    format_node(OsDisk(), own, CLUSTER_ID, initial=initial)
    (formatted,) = format_node(OsDisk(), lost, CLUSTER_ID, initial={})
    survivor = look(OsDisk(), own)
    assert survivor.voter_ids == (1, 2, 3) and survivor.counted == ids
    with pytest.raises(Refusal, match="was lost as well"):
        look(OsDisk(), lost)
    assert readmit(OsDisk(), own, 3, formatted.directory_id).counted == {**ids, 3: formatted.directory_id}
    with pytest.raises(Refusal, match="controllers: 1, 2, 3"):
        readmit(OsDisk(), own, 4, formatted.directory_id)
