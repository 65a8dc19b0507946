"""RemoveRaftVoter (81): v0 (KIP-853).

The controller answers when the change is committed.
Order: forward to the active controller, answer as it answers.
"""

from kvorum.broker.api.forwarded import forward
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse


async def handle(ctx: RequestContext, request: RemoveRaftVoterRequest, broker: Broker) -> RemoveRaftVoterResponse:
    """Forward a change of the voters to the active controller."""
    return await forward(ctx, request, broker, RemoveRaftVoterResponse, failed)


def failed(request: RemoveRaftVoterRequest, error: KafkaError) -> RemoveRaftVoterResponse:
    """Answer that it could not be taken to the controller."""
    return RemoveRaftVoterResponse(error_code=error.code, error_message=error.message)


HANDLER = BrokerApi(ApiKey.REMOVE_RAFT_VOTER, handle)
