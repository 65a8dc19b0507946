"""Single log directories of a broker that fail, are replaced, taken out: what stands on the disk, and what is told."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kvorum.chaos import history
from kvorum.chaos.faults.directories import NoSuchDirectory
from kvorum.chaos.faults.lab import Lab
from kvorum.chaos.faults.shape import LabShape
from kvorum.chaos.faults.topology import BROKER
from kvorum.runtime.disk import OsDisk
from kvorum.storage.checkpoints import read_meta_properties

Events = list[history.Fault]


@pytest.fixture
def events() -> Events:
    return []


@pytest.fixture
def lab(tmp_path: Path, events: Events) -> Iterator[Lab]:
    """A node with three directories that was never started."""
    shape = LabShape(brokers=1, controllers=1, log_dirs=3)
    with Lab.create(
        str(tmp_path / "lab"), shape, network="plain", on_fault=events.append, seconds=lambda: 1.0, start=False
    ) as made:
        yield made


def directory(lab: Lab, number: int) -> Path:
    return Path(lab.directories.path("node-1", number))


def identity(lab: Lab, number: int) -> object:
    found = read_meta_properties(OsDisk(), str(directory(lab, number)))
    return None if found is None else found.directory_id


def test_a_broker_has_as_many_directories_as_the_shape_says_each_formatted(lab: Lab) -> None:
    found = [directory(lab, number) for number in (1, 2, 3)]
    assert lab.disks.directories("node-1", BROKER) == [str(path) for path in found]
    assert [path.name for path in found] == ["data", "data-2", "data-3"]
    assert len({identity(lab, number) for number in (1, 2, 3)} - {None}) == 3


def test_the_first_directory_stays_and_others_have_to_be_there(lab: Lab, events: Events) -> None:
    for verb in (lab.directories.fail, lab.directories.replace, lab.directories.drop):
        with pytest.raises(NoSuchDirectory, match="the node's own files"):
            verb("node-1", 1)
        with pytest.raises(NoSuchDirectory, match="number 4 does not exist"):
            verb("node-1", 4)
    assert events == []


def test_a_failed_directory_is_inaccessible_and_returns_with_its_content(lab: Lab, events: Events) -> None:
    path = directory(lab, 2)
    (path / "orders-0").mkdir()
    with lab.directories.fail("node-1", 2):
        assert path.is_file()
        with pytest.raises(OSError):
            (path / "orders-1").mkdir()
    assert (path / "orders-0").is_dir() and identity(lab, 2) is not None
    assert [(each.fault, each.phase, each.lossy) for each in events] == [
        ("fail_directory", "begin", False),
        ("fail_directory", "end", False),
    ]


def test_one_that_is_replaced_is_empty_and_another_one(lab: Lab, events: Events) -> None:
    before = identity(lab, 2)
    (directory(lab, 2) / "orders-0").mkdir()
    (directory(lab, 3) / "orders-1").mkdir()
    lab.directories.replace("node-1", 2)
    assert [path.name for path in directory(lab, 2).iterdir()] == ["meta.properties"]
    assert identity(lab, 2) != before
    assert (directory(lab, 3) / "orders-1").is_dir()
    (begun,) = events
    assert (begun.fault, begun.lossy, begun.partitions) == ("replace_directory", True, ["orders-0"])


def test_a_removed_directory_leaves_log_dirs_and_keeps_its_content(lab: Lab, events: Events) -> None:
    path = directory(lab, 2)
    (path / "orders-0").mkdir()
    lab.directories.drop("node-1", 2)
    assert [Path(each).name for each in lab.disks.directories("node-1", BROKER)] == ["data", "data-3"]
    assert (path / "orders-0").is_dir()
    lab.directories.drop("node-1", 2)
    assert [(each.lossy, each.partitions) for each in events] == [(True, ["orders-0"]), (False, [])]


def test_a_log_is_in_a_directory_when_no_copy_is_on_its_way(lab: Lab) -> None:
    assert not lab.directories.has_log("node-1", "orders-0", 2)
    (directory(lab, 2) / "orders-0").mkdir()
    assert lab.directories.has_log("node-1", "orders-0", 2)
    assert not lab.directories.has_log("node-1", "orders-0", 3)
    copy = directory(lab, 3) / f"orders-0.{'0' * 32}-future"
    copy.mkdir()
    assert not lab.directories.has_log("node-1", "orders-0", 2)
    copy.rename(directory(lab, 3) / f"orders-1.{'0' * 32}-future")
    assert lab.directories.has_log("node-1", "orders-0", 2)
