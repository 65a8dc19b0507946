"""AllocateProducerIds (67): v0. A block of producer ids for a broker, each assigned once (KIP-730)."""

from typing import Final

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kvorum.quorum.controller.context import Context
from kvorum.quorum.controller.result import Result
from kvorum.quorum.records import ProducerIds

BLOCK_SIZE: Final = 1_000
"""Producer ids of one block (ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE)."""
PRODUCER_ID_MAX: Final = 2**63 - 1


def allocate_producer_ids(context: Context, request: AllocateProducerIdsRequest) -> Result[AllocateProducerIdsResponse]:
    """Assign the next block to a broker.

    Raises KafkaError STALE_BROKER_EPOCH, and UNKNOWN_SERVER_ERROR when all blocks are used.
    """
    context.checked_broker(request.broker_id, request.broker_epoch)
    first = context.image.producer_ids.next_producer_id
    if first > PRODUCER_ID_MAX - BLOCK_SIZE:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "Exhausted all producerIds")
    record = ProducerIds(
        broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=first + BLOCK_SIZE
    )
    response = AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE)
    return Result(records=[record], response=response)
