"""UpdateRaftVoter as its handler answers it: which refusal comes first is Kafka's (KafkaRaftClient)."""

from typing import cast

import pytest

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.update_raft_voter import KRaftVersionFeature, Listener, UpdateRaftVoterRequest
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.raft.membership import Membership
from tests.unit.quorum.runtime.runtime_kit import CLUSTER_ID, World


@pytest.mark.parametrize(
    ("cluster_id", "behind", "code"),
    [
        ("another", 1, ErrorCode.INCONSISTENT_CLUSTER_ID),
        (CLUSTER_ID, 1, ErrorCode.FENCED_LEADER_EPOCH),
        (CLUSTER_ID, -1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (CLUSTER_ID, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_a_follower_compares_the_epochs_first(world: World, cluster_id: str, behind: int, code: ErrorCode) -> None:
    """A voter that asks with an older epoch is to learn of the newer one, whoever it asks."""
    request = UpdateRaftVoterRequest(cluster_id=cluster_id, current_leader_epoch=world.log.epoch - behind)
    assert world.run(world.ask(request)).error_code == code


class Busy:
    """Raft's part, while another change of the voters is under way, or not; where voter 2 is said to listen."""

    def __init__(self, *, busy: bool) -> None:
        self.busy = busy
        self.noted: list[tuple[str, str, int]] = []

    def check_update(self) -> None:
        if self.busy:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)

    def update(self, node_id: int, directory_id: bytes, endpoints: list[tuple[str, str, int]]) -> None:
        self.check_update()
        assert node_id == 2 and directory_id == bytes(15) + b"2"
        self.noted = endpoints


@pytest.mark.parametrize(
    ("busy", "listener", "versions", "code"),
    [
        (False, "CONTROLLER", (0, 1), ErrorCode.NONE),
        (False, "CONTROLLER", (1, 1), ErrorCode.NONE),
        (False, "CONTROLLER", (0, 0), ErrorCode.INVALID_REQUEST),
        (True, "CONTROLLER", (0, 0), ErrorCode.REQUEST_TIMED_OUT),
        (True, "CONTROLLER", (1, 0), ErrorCode.INVALID_REQUEST),
        (True, "CONTROLLER", (-1, 1), ErrorCode.INVALID_REQUEST),
        (True, "ANOTHER", (0, 1), ErrorCode.INVALID_REQUEST),
        (True, "CONTROLLER", (0, 1), ErrorCode.REQUEST_TIMED_OUT),
    ],
)
def test_invalid_requests_are_refused_before_and_old_versions_after_the_check_for_a_change_in_progress(
    world: World, busy: bool, listener: str, versions: tuple[int, int], code: ErrorCode
) -> None:
    world.elect()
    found = Busy(busy=busy)
    world.server.services.membership = cast(Membership, found)
    least, most = versions
    request = UpdateRaftVoterRequest(
        cluster_id=CLUSTER_ID,
        current_leader_epoch=world.log.epoch,
        voter_id=2,
        voter_directory_id=Uuid(bytes(15) + b"2"),
        listeners=[Listener(name=listener, host="127.0.0.1", port=19_095)],
        k_raft_version_feature=KRaftVersionFeature(min_supported_version=least, max_supported_version=most),
    )
    assert world.run(world.ask(request)).error_code == code
    assert found.noted == ([("CONTROLLER", "127.0.0.1", 19_095)] if code is ErrorCode.NONE else [])
