"""InitProducerId (22): v0-v5.

v3: a producer that knows its id and epoch asks to go on (KIP-360). v4, v5: newer errors and transactions only.
v6 (two-phase commit) is unstable in Kafka 4.3 and not offered. An idempotent producer always gets a new id with
epoch 0, whatever it knew: so it is in Kafka.
Not here: transactional ids; they are answered COORDINATOR_NOT_AVAILABLE, as FindCoordinator does.
Order: authorise, check the request, take an id.
"""

from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import CLUSTER_NAME, Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


async def handle(ctx: RequestContext, request: InitProducerIdRequest, broker: Broker) -> InitProducerIdResponse:
    """Give a producer its identity."""
    response = InitProducerIdResponse(producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
    try:
        check(ctx, request, broker)
        response.producer_id = await broker.producer_ids.next_producer_id()
        response.producer_epoch = 0
    except KafkaError as error:
        response.error_code = error.code
    response.throttle_time = broker.throttle(ctx)
    return response


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
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a producer id goes with an epoch")
    if transactional_id is None:
        return
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "an empty transactional id")
    if not 0 < request.transaction_timeout <= broker.settings.int("transaction.max.timeout.ms"):
        raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "this cluster has no transaction coordinators yet")


HANDLER = BrokerApi(ApiKey.INIT_PRODUCER_ID, handle)
