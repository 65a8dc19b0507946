"""GetTelemetrySubscriptions (71): v0 (KIP-714).

Served if `kvorum.client.metrics.enable` is true; in Kafka, if a plug-in receives client metrics. Never authorised, as
in Kafka. Order: the client's id (a new one if it has none), its subscriptions, the push interval.
"""

from kvorum.broker.services import Broker, BrokerApi
from kvorum.broker.telemetry.client import attributes_of
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)


def handle(
    ctx: RequestContext, request: GetTelemetrySubscriptionsRequest, broker: Broker
) -> GetTelemetrySubscriptionsResponse:
    """Return the metrics that a client pushes, and the interval. Raises KafkaError; see ClientMetricsManager.get."""
    assert broker.telemetry is not None, "served only where there is one"
    response = broker.telemetry.get(request, attributes_of(ctx), ctx.connection_id, broker.clock.monotonic_ms())
    response.throttle_time = broker.throttle(ctx)
    return response


HANDLER = BrokerApi(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, handle)
