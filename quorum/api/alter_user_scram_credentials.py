"""AlterUserScramCredentials (51): v0 (KIP-554). The rules: controller/scram_control.py.

Order: authorise (ALTER on the cluster; otherwise the error is each user's), decide, answer when committed.
"""

from kvorum.network.authorizer import Operation
from kvorum.network.context import RequestContext
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from kvorum.quorum.controller.scram_control import alter_user_scram_credentials, result_row, users_of
from kvorum.quorum.services import ControllerServices


async def handle(
    ctx: RequestContext, request: AlterUserScramCredentialsRequest, services: ControllerServices
) -> AlterUserScramCredentialsResponse:
    """Set and delete SCRAM credentials."""
    try:
        services.authorize_cluster(ctx, Operation.ALTER)
        return await services.submit(ctx, alter_user_scram_credentials, request, name="alterUserScramCredentials")
    except KafkaError as error:
        return AlterUserScramCredentialsResponse(results=[result_row(user, error) for user in users_of(request)])
