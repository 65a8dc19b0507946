"""AddRaftVoter (80): v0-v1, at the leader of a dynamic quorum (KIP-853). The rules: quorum/raft/membership.py.

v1: answer once the change is in the log, before it is committed.
Order: authorise, cluster id, the voter, leadership, its listener answers and knows kraft.version, lag, append, answer.
Source: Kafka's AddVoterHandler, KafkaRaftClient.handleAddVoterRequest.
"""

from typing import Final

from kvorum.network.addresses import Address
from kvorum.network.authorizer import Operation
from kvorum.network.channel import Channel
from kvorum.network.context import RequestContext
from kvorum.network.dial import ChannelError
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from kvorum.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kvorum.quorum.api.raft_voters import check_request, committed, default_address, format_endpoints, voter_endpoints
from kvorum.quorum.image.features import KRAFT_VERSION
from kvorum.quorum.raft.membership import replica_key
from kvorum.quorum.services import ControllerServices

PROBE_TIMEOUT_MS: Final = 2_000
"""Time limit for the new voter's answer (controller.quorum.request.timeout.ms)."""
KRAFT_VERSION_DYNAMIC: Final = 1


async def handle(
    ctx: RequestContext, request: AddRaftVoterRequest, services: ControllerServices
) -> AddRaftVoterResponse:
    """Make a controller that follows a voter."""
    services.authorize_cluster(ctx, Operation.ALTER)
    membership = check_request(ctx, services, request.cluster_id)
    if request.voter_id < 0 or not any(request.voter_directory_id):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Add voter request didn't include a valid voter")
    endpoints = voter_endpoints(request.listeners)
    address = default_address(services, endpoints)
    if address is None:
        message = (
            f"Add voter request didn't include the endpoint ({format_endpoints(endpoints)}) for the default listener"
        )
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{message} ListenerName({services.listener_name})")
    directory_id = bytes(request.voter_directory_id)
    membership.check_add(request.voter_id, directory_id)
    await _check_version(services, request.voter_id, directory_id, address)
    change = membership.add(request.voter_id, directory_id, endpoints)
    if request.ack_when_committed:
        await committed(change, request.timeout)
    return AddRaftVoterResponse(error_message=None)


async def _check_version(services: ControllerServices, voter_id: int, directory_id: bytes, address: Address) -> None:
    """Raise KafkaError unless a controller with dynamic quorums listens at the new voter's address."""
    key = replica_key(voter_id, directory_id)
    channel = Channel(
        lambda: address,
        client_id=f"controller-{services.node_id}",
        chance=services.chance,
        security=services.security,
    )
    try:
        request = ApiVersionsRequest(client_software_name="kvorum", client_software_version="0.1.0")
        answer = await channel.request(request, timeout_ms=PROBE_TIMEOUT_MS)
    except ChannelError as error:
        message = f"New voter {key} is not ready to receive requests"
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, message) from error
    finally:
        await channel.close()
    assert isinstance(answer, ApiVersionsResponse)
    known = next((each for each in answer.supported_features if each.name == KRAFT_VERSION), None)
    if known is None or not known.min_version <= KRAFT_VERSION_DYNAMIC <= known.max_version:
        span = f"(min: {known.min_version}, max: {known.max_version}" if known else "(min: 0, max: 0)"
        message = f"Aborted add voter operation for {key} since the {KRAFT_VERSION} range {span} doesn't support"
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{message} the finalized version {KRAFT_VERSION_DYNAMIC}")
