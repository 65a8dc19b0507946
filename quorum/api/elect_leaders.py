"""ElectLeaders (43): v0-v2 (KIP-183, KIP-460). The rules: controller/elections.py.

v0: preferred leaders only, no top-level error. v1: election type. v2: flexible.
Order: authorise, decide, respond when committed. A rejection of the whole request is returned for each partition too.
"""

from kvorum.network.authorizer import Operation
from kvorum.network.context import RequestContext
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from kvorum.quorum.controller.elections import elect_leaders
from kvorum.quorum.services import ControllerServices


async def handle(
    ctx: RequestContext, request: ElectLeadersRequest, services: ControllerServices
) -> ElectLeadersResponse:
    """Elect the requested leaders."""
    try:
        services.authorize_cluster(ctx, Operation.ALTER)
        return await services.submit(ctx, elect_leaders, request, name="electLeaders")
    except KafkaError as error:
        return _refusal(request, error)


def _refusal(request: ElectLeadersRequest, error: KafkaError) -> ElectLeadersResponse:
    """Set the error of the response and of every named partition."""
    return ElectLeadersResponse(
        error_code=error.code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=wanted.topic,
                partition_result=[
                    PartitionResult(partition_id=each, error_code=error.code, error_message=error.message)
                    for each in wanted.partitions
                ],
            )
            for wanted in request.topic_partitions or ()
        ],
    )
