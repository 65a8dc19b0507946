"""UpdateRaftVoter (82): v0, at the leader of a dynamic quorum (KIP-853): a voter reports its endpoints.

It is answered once it is in the log. Only controllers send it, at their start, if the voter set has other endpoints.
Order: authorise, cluster id, epoch, leadership, the voter, its listener, an invalid range, a change in progress,
kraft.version, append, answer.
Source: Kafka's KafkaRaftClient, UpdateVoterHandler.
"""

from kvorum.network.authorizer import Operation
from kvorum.network.context import RequestContext
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.update_raft_voter import CurrentLeader, UpdateRaftVoterRequest, UpdateRaftVoterResponse
from kvorum.quorum.api.raft_voters import check_cluster, check_request, default_address, voter_endpoints
from kvorum.quorum.services import ControllerServices

KRAFT_VERSION_DYNAMIC = 1


async def handle(
    ctx: RequestContext, request: UpdateRaftVoterRequest, services: ControllerServices
) -> UpdateRaftVoterResponse:
    """Store a voter's address; the answer always names the leader."""
    services.authorize_cluster(ctx, Operation.CLUSTER_ACTION)
    error = ErrorCode.NONE
    try:
        _update(ctx, request, services)
    except KafkaError as refused:
        error = refused.code
    leader_id, epoch = services.leader_and_epoch()
    host, port = services.voter_addresses(ctx.listener).get(leader_id, ("", 0))
    leader = CurrentLeader(leader_id=leader_id, leader_epoch=epoch, host=host, port=port)
    return UpdateRaftVoterResponse(error_code=error, current_leader=leader)


def _update(ctx: RequestContext, request: UpdateRaftVoterRequest, services: ControllerServices) -> None:
    """Raise KafkaError where it cannot be done."""
    check_cluster(services, request.cluster_id)
    _, epoch = services.leader_and_epoch()
    if request.current_leader_epoch < epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
    if request.current_leader_epoch > epoch:
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)
    membership = check_request(ctx, services, request.cluster_id)
    feature, endpoints = request.k_raft_version_feature, voter_endpoints(request.listeners)
    least, most = feature.min_supported_version, feature.max_supported_version
    if request.voter_id < 0 or not any(request.voter_directory_id) or not 0 <= least <= most:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if default_address(services, endpoints) is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    membership.check_update()
    if not least <= KRAFT_VERSION_DYNAMIC <= most:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    membership.update(request.voter_id, bytes(request.voter_directory_id), endpoints)
