"""AddRaftVoter (80): v0-v1 (KIP-853).

v1: optionally a response before the change is committed.
Order: forward to the active controller, return its response.
"""

from kvorum.broker.api.forwarded import forward
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse


async def handle(ctx: RequestContext, request: AddRaftVoterRequest, broker: Broker) -> AddRaftVoterResponse:
    """Forward a change of the voters to the active controller."""
    return await forward(ctx, request, broker, AddRaftVoterResponse, failed)


def failed(request: AddRaftVoterRequest, error: KafkaError) -> AddRaftVoterResponse:
    """Answer that it could not be taken to the controller."""
    return AddRaftVoterResponse(error_code=error.code, error_message=error.message)


HANDLER = BrokerApi(ApiKey.ADD_RAFT_VOTER, handle)
