"""`format` interrupted by a loss of power: formatting again finishes it or names what to move; nothing starts on it."""

import random

import pytest

from kvorum.cluster.local.formatting import FormatError, controller_directory, format_node, log_directories
from kvorum.cluster.process.controller_process import open_quorum
from kvorum.cluster.process.hosting import Refusal
from kvorum.cluster.process.identity import identity_of
from kvorum.runtime.config import Settings
from kvorum.storage.checkpoints import read_meta_properties
from sim.disk import PowerLoss, SimDisk

CLUSTER_ID = "c2ltdWxhdGVkY2x1c3Rlcg"
STEPS_MAX = 200
SETTINGS = Settings.of(
    {
        "node.id": 1,
        "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@127.0.0.1:9093",
        "log.dirs": "/data/a,/data/b",
        "metadata.log.dir": "/data/a",
    }
)


def interrupted(steps: int) -> tuple[SimDisk, bool]:
    """Format with so many operations on the disk; return the disk, and whether it was interrupted."""
    disk = SimDisk(random.Random(steps))
    disk.power(steps)
    try:
        format_node(disk, SETTINGS, CLUSTER_ID)
    except PowerLoss:
        disk.crash()
        return disk, True
    return disk, False


def is_whole(disk: SimDisk) -> bool:
    return all(disk.exists(each) and read_meta_properties(disk, each) for each in log_directories(SETTINGS))


def test_a_format_interrupted_at_any_step_is_finished_or_named() -> None:
    named = finished = 0
    for steps in range(STEPS_MAX):
        disk, was_interrupted = interrupted(steps)
        if not was_interrupted:
            break
        folder = controller_directory(SETTINGS)
        if not (disk.exists(folder) and read_meta_properties(disk, folder)):
            with pytest.raises(Refusal):
                open_quorum(disk, SETTINGS, identity_of(disk, SETTINGS, folder).cluster_id)
        try:
            format_node(disk, SETTINGS, CLUSTER_ID, ignore_formatted=True)
        except FormatError as error:
            assert "move" in str(error)
            assert folder in str(error)
            named += 1
            continue
        assert is_whole(disk)
        assert open_quorum(disk, SETTINGS, CLUSTER_ID)
        finished += 1
    else:
        raise AssertionError("format has more steps than are tried")
    assert named
    assert finished


def test_a_format_that_fails_on_a_full_disk_can_be_repeated_once_there_is_space() -> None:
    disk = SimDisk(random.Random(0))
    format_node(disk, SETTINGS, CLUSTER_ID)
    needed = disk.total_bytes("/") - disk.free_bytes("/")
    for missing in (1, 100, 200, 300, 500, needed // 2, needed):
        disk = SimDisk(random.Random(0))
        disk.capacity = needed - missing
        with pytest.raises(OSError, match="No space left"):
            format_node(disk, SETTINGS, CLUSTER_ID)
        formatted = [each for each in log_directories(SETTINGS) if disk.exists(each)]
        assert not any(read_meta_properties(disk, each) for each in formatted)
        disk.capacity = None
        format_node(disk, SETTINGS, CLUSTER_ID)
        assert is_whole(disk)
        assert open_quorum(disk, SETTINGS, CLUSTER_ID)
