"""DescribeTransactions (65): v0: what the coordinator knows of transactional ids (KIP-664).

Order: authorise DESCRIBE on each id, look it up, omit topics that the client may not describe.
"""

from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)


def handle(ctx: RequestContext, request: DescribeTransactionsRequest, broker: Broker) -> DescribeTransactionsResponse:
    """Answer each id on its own."""
    return DescribeTransactionsResponse(
        throttle_time=broker.throttle(ctx),
        transaction_states=[describe(ctx, each, broker) for each in request.transactional_ids],
    )


def describe(ctx: RequestContext, transactional_id: str, broker: Broker) -> TransactionState:
    """Return one row, with its error."""
    authorize = broker.authorizer.authorize
    if not authorize(ctx, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return TransactionState(
            transactional_id=transactional_id, error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        )
    row = broker.transactions.describe(transactional_id)
    row.topics = [each for each in row.topics if authorize(ctx, Operation.DESCRIBE, ResourceType.TOPIC, each.topic)]
    return row


HANDLER = BrokerApi(ApiKey.DESCRIBE_TRANSACTIONS, handle)
