"""InitProducerId (22): v0-v5.

v3: a producer that knows its id and epoch continues with them (KIP-360). v4: PRODUCER_FENCED. v5: transactions of
version 2 (KIP-890). v6 (two-phase commit, KIP-939) is unstable in Kafka 4.3 and not offered. An idempotent producer
always gets a new id with epoch 0, whatever it sent, as in Kafka.
Order: authorise, check the request, take an id; with a transactional id the coordinator decides, which ends an open
transaction.
"""

from kvorum.broker.coordinator.runtime.words import Producer
from kvorum.broker.coordinator.transaction.words import Answer, InitProducer, known_code
from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import CLUSTER_NAME, Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.batch_header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


async def handle(ctx: RequestContext, request: InitProducerIdRequest, broker: Broker) -> InitProducerIdResponse:
    """Assign a producer its id and epoch."""
    try:
        check(ctx, request, broker)
        answer = await identity(request, broker)
    except KafkaError as error:
        answer = Answer(error.code)
    return InitProducerIdResponse(
        throttle_time=broker.throttle(ctx),
        error_code=known_code(ApiKey.INIT_PRODUCER_ID, ctx.api_version, answer.code),
        producer_id=answer.producer_id,
        producer_epoch=answer.producer_epoch,
    )


def check(ctx: RequestContext, request: InitProducerIdRequest, broker: Broker) -> None:
    """Raise KafkaError with the code Kafka refuses this request with."""
    authorize = broker.authorizer.authorize
    transactional_id = request.transactional_id
    if transactional_id is not None:
        if not authorize(ctx, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    elif not authorize(ctx, Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME) and not any(
        authorize(ctx, Operation.WRITE, ResourceType.TOPIC, name) for name in broker.metadata.topic_names()
    ):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a producer id requires an epoch")
    if transactional_id == "":
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id must not be empty")
    timeout_ms_max = broker.settings.int("transaction.max.timeout.ms")
    if transactional_id is not None and not 0 < request.transaction_timeout <= timeout_ms_max:
        raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)


async def identity(request: InitProducerIdRequest, broker: Broker) -> Answer:
    """Return the new id and epoch, or the error. Raises KafkaError."""
    if request.transactional_id is None:
        return Answer(ErrorCode.NONE, await broker.producer_ids.next_producer_id(), 0)
    expected = None
    if request.producer_id != NO_PRODUCER_ID:
        expected = Producer(request.producer_id, request.producer_epoch)
    return await broker.transactions.init_producer_id(
        InitProducer(
            transactional_id=request.transactional_id,
            timeout_ms=request.transaction_timeout,
            expected=expected,
        )
    )


HANDLER = BrokerApi(ApiKey.INIT_PRODUCER_ID, handle)
