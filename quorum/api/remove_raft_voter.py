"""RemoveRaftVoter (81): v0, at the leader of a dynamic quorum (KIP-853). The rules: quorum/raft/membership.py.

A removed controller continues as an observer; a leader hands over once the set without it is committed.
Order: authorise, cluster id, leadership, the voter, append, answer when committed.
Source: Kafka's RemoveVoterHandler.
"""

from kvorum.network.authorizer import Operation
from kvorum.network.context import RequestContext
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from kvorum.quorum.api.raft_voters import check_request, committed
from kvorum.quorum.services import ControllerServices


async def handle(
    ctx: RequestContext, request: RemoveRaftVoterRequest, services: ControllerServices
) -> RemoveRaftVoterResponse:
    """Make a voter an observer."""
    services.authorize_cluster(ctx, Operation.ALTER)
    membership = check_request(ctx, services, request.cluster_id)
    if request.voter_id < 0 or not any(request.voter_directory_id):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Remove voter request didn't include a valid voter")
    change = membership.remove(request.voter_id, bytes(request.voter_directory_id))
    await committed(change, services.settings.int("controller.quorum.request.timeout.ms"))
    return RemoveRaftVoterResponse(error_message=None)
