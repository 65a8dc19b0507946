"""AlterClientQuotas (49): v0-v1 (KIP-546, KIP-612).

Order: forward to the active controller, answer as it answers.
"""

from kvorum.broker.api.forwarded import forward
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ResponseEntityData,
    ResponseEntryData,
)


async def handle(ctx: RequestContext, request: AlterClientQuotasRequest, broker: Broker) -> AlterClientQuotasResponse:
    """Forward a change of quotas to the controller."""
    return await forward(ctx, request, broker, AlterClientQuotasResponse, failed)


def failed(request: AlterClientQuotasRequest, error: KafkaError) -> AlterClientQuotasResponse:
    """Answer the same for every entity."""
    return AlterClientQuotasResponse(
        entries=[
            ResponseEntryData(
                error_code=error.code,
                error_message=error.message,
                entity=[
                    ResponseEntityData(entity_type=part.entity_type, entity_name=part.entity_name)
                    for part in entry.entity
                ],
            )
            for entry in request.entries
        ]
    )


HANDLER = BrokerApi(ApiKey.ALTER_CLIENT_QUOTAS, handle)
