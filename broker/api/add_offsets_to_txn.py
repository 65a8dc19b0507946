"""AddOffsetsToTxn (25): v0-v4: a producer will commit a group's offsets within its transaction.

v2: PRODUCER_FENCED. v3: flexible. v4: TRANSACTION_ABORTABLE. Producers of transaction version 2 do without: their
TxnOffsetCommit adds the offsets' partition itself.
Order: authorise the transactional id, then the group; find the group's offsets partition; query the coordinator.
"""

from kvorum.broker.coordinator.runtime.words import Producer
from kvorum.broker.coordinator.transaction.beginning import OFFSETS_TRANSACTION_VERSION
from kvorum.broker.coordinator.transaction.words import AddPartitions, known_code
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse


async def handle(ctx: RequestContext, request: AddOffsetsToTxnRequest, broker: Broker) -> AddOffsetsToTxnResponse:
    """Add the partition in which the group's offsets live."""
    try:
        code = await add(ctx, request, broker)
    except KafkaError as error:
        code = error.code
    return AddOffsetsToTxnResponse(
        throttle_time=broker.throttle(ctx), error_code=known_code(ApiKey.ADD_OFFSETS_TO_TXN, ctx.api_version, code)
    )


async def add(ctx: RequestContext, request: AddOffsetsToTxnRequest, broker: Broker) -> ErrorCode:
    """Return the coordinator's code. Raises KafkaError."""
    authorize = broker.authorizer.authorize
    if not authorize(ctx, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not authorize(ctx, Operation.READ, ResourceType.GROUP, request.group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return await broker.transactions.add_partitions(
        AddPartitions(
            transactional_id=request.transactional_id,
            producer=Producer(request.producer_id, request.producer_epoch),
            partitions=frozenset({broker.groups.partition_of(request.group_id)}),
            client_transaction_version=OFFSETS_TRANSACTION_VERSION,
        )
    )


HANDLER = BrokerApi(ApiKey.ADD_OFFSETS_TO_TXN, handle)
