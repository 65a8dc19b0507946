"""UpdateRaftVoter as its handler answers it: which refusal comes first is Kafka's (KafkaRaftClient)."""

import pytest
from runtime_kit import CLUSTER_ID, World

from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.update_raft_voter import UpdateRaftVoterRequest


@pytest.mark.parametrize(
    ("cluster_id", "behind", "code"),
    [
        ("another", 1, ErrorCode.INCONSISTENT_CLUSTER_ID),
        (CLUSTER_ID, 1, ErrorCode.FENCED_LEADER_EPOCH),
        (CLUSTER_ID, -1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (CLUSTER_ID, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_who_does_not_lead_compares_the_epochs_first(
    world: World, cluster_id: str, behind: int, code: ErrorCode
) -> None:
    """A voter that asks with an older epoch is to learn of the newer one, whoever it asks."""
    request = UpdateRaftVoterRequest(cluster_id=cluster_id, current_leader_epoch=world.log.epoch - behind)
    assert world.run(world.ask(request)).error_code == code
