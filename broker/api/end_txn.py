"""EndTxn (26): v0-v5: a producer commits or aborts.

v2: PRODUCER_FENCED. v3: flexible. v4: TRANSACTION_ABORTABLE. v5: transaction version 2 (KIP-890): the response has the
id and epoch of the next transaction.
Order: authorise, query the coordinator, which responds when the end is certain.
"""

from kvorum.broker.coordinator.runtime.words import Producer
from kvorum.broker.coordinator.transaction.words import Answer, EndTransaction, known_code, version_of_end_txn
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse


async def handle(ctx: RequestContext, request: EndTxnRequest, broker: Broker) -> EndTxnResponse:
    """End a transaction."""
    ending = EndTransaction(
        transactional_id=request.transactional_id,
        producer=Producer(request.producer_id, request.producer_epoch),
        is_commit=request.committed,
        client_transaction_version=version_of_end_txn(ctx.api_version),
    )
    try:
        if not broker.authorizer.authorize(
            ctx, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id
        ):
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        answer = await broker.transactions.end_transaction(ending)
    except KafkaError as error:
        answer = Answer(error.code)
    return EndTxnResponse(
        throttle_time=broker.throttle(ctx),
        error_code=known_code(ApiKey.END_TXN, ctx.api_version, answer.code),
        producer_id=answer.producer_id,
        producer_epoch=answer.producer_epoch,
    )


HANDLER = BrokerApi(ApiKey.END_TXN, handle)
