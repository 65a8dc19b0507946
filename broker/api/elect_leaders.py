"""ElectLeaders (43): v0-v2.

v0: preferred elections only. v1: unclean ones too (KIP-460).
Order: forward to the active controller, return its response.
"""

from kvorum.broker.api.forwarded import forward
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)


async def handle(ctx: RequestContext, request: ElectLeadersRequest, broker: Broker) -> ElectLeadersResponse:
    """Forward the election to the controller."""
    return await forward(ctx, request, broker, ElectLeadersResponse, failed)


def failed(request: ElectLeadersRequest, error: KafkaError) -> ElectLeadersResponse:
    """Answer the same for the whole and for every partition that was named."""
    code, message = error.code, error.message
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=partition, error_code=code, error_message=message)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


HANDLER = BrokerApi(ApiKey.ELECT_LEADERS, handle)
