"""How the Raft layer's figures follow from Kafka's keys."""

import pytest

from kvorum.quorum.raft.settings import FAST, RaftSettings, raft_settings
from kvorum.runtime.config import Settings


def test_defaults_are_those_of_kafkas_keys() -> None:
    assert raft_settings(Settings.of({"node.id": "1"})) == RaftSettings()


def test_shorter_timeouts_shorten_everything_that_depends_on_them() -> None:
    keys = {
        "node.id": "1",
        "controller.quorum.election.timeout.ms": "300",
        "controller.quorum.fetch.timeout.ms": "500",
        "metadata.log.max.record.bytes.between.snapshots": "4096",
    }
    found = raft_settings(Settings.of(keys))
    assert (found.election_timeout_min_s, found.election_timeout_max_s) == pytest.approx((0.12, 0.24))
    assert found.heartbeat_s == pytest.approx(0.024) and found.check_quorum_timeout_s == 0.25
    assert found.snapshot_bytes == 4096


def test_figures_that_cannot_work_are_refused() -> None:
    with pytest.raises(AssertionError):
        RaftSettings(heartbeat_s=0.2)
    assert FAST.heartbeat_s * 3 < FAST.election_timeout_min_s
