"""ListTransactions (66): v0-v2: the transactional ids that are coordinated here (KIP-664).

v1: a filter by duration (KIP-994). v2: a pattern of transactional ids (RE2, KIP-1152).
Order: read the filters, go over all partitions led here, leave out the ids that the client may not describe.
"""

from kvorum.broker.coordinator.group.consumer.patterns import compiled
from kvorum.broker.coordinator.transaction.listing import TransactionFilter
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse


def handle(ctx: RequestContext, request: ListTransactionsRequest, broker: Broker) -> ListTransactionsResponse:
    """List what passes the filters."""
    pattern = request.transactional_id_pattern
    try:
        matches = compiled(pattern) if pattern else None
    except KafkaError as error:
        return ListTransactionsResponse(throttle_time=broker.throttle(ctx), error_code=error.code)
    response = broker.transactions.list_transactions(
        TransactionFilter(
            state_names=request.state_filters,
            producer_ids=frozenset(request.producer_id_filters),
            duration_ms=request.duration_filter,
            matches=matches,
        )
    )
    authorize = broker.authorizer.authorize
    response.transaction_states = [
        each
        for each in response.transaction_states
        if authorize(ctx, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, each.transactional_id)
    ]
    response.throttle_time = broker.throttle(ctx)
    return response


HANDLER = BrokerApi(ApiKey.LIST_TRANSACTIONS, handle)
