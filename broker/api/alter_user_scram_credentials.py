"""AlterUserScramCredentials (51): v0 (KIP-554).

Order: forward to the active controller, answer as it answers.
"""

from kvorum.broker.api.forwarded import forward
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


async def handle(
    ctx: RequestContext, request: AlterUserScramCredentialsRequest, broker: Broker
) -> AlterUserScramCredentialsResponse:
    """Forward a change of SCRAM credentials to the controller."""
    return await forward(ctx, request, broker, AlterUserScramCredentialsResponse, failed)


def failed(request: AlterUserScramCredentialsRequest, error: KafkaError) -> AlterUserScramCredentialsResponse:
    """Answer the same for every user."""
    names = [each.name for each in request.deletions] + [each.name for each in request.upsertions]
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=user, error_code=error.code, error_message=error.message)
            for user in dict.fromkeys(names)
        ]
    )


HANDLER = BrokerApi(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, handle)
