"""PushTelemetry (72): v0 (KIP-714).

Served if `kvorum.client.metrics.enable` is true. Pushed metrics are exposed on /metrics, within limits. Never
authorised, as in Kafka.
Order: the client's id, terminated or not, the push interval, subscription id, compression, size, contents.
"""

from kvorum.broker.services import Broker, BrokerApi
from kvorum.broker.telemetry.client import attributes_of
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse


def handle(ctx: RequestContext, request: PushTelemetryRequest, broker: Broker) -> PushTelemetryResponse:
    """Receive a client's metrics. Raises KafkaError; see ClientMetricsManager.push."""
    assert broker.telemetry is not None, "served only where there is one"
    broker.telemetry.push(request, attributes_of(ctx), ctx.connection_id, broker.clock.monotonic_ms())
    return PushTelemetryResponse(throttle_time=broker.throttle(ctx))


HANDLER = BrokerApi(ApiKey.PUSH_TELEMETRY, handle)
