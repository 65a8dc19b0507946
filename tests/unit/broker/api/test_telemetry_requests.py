"""Clients' metrics over the wire: offered only where they are received, and each refusal under its own code."""

from types import SimpleNamespace
from typing import Any

from kvorum.broker.telemetry.client import attributes_of
from kvorum.broker.telemetry.figures import follow_client_metrics
from kvorum.broker.telemetry.manager import ClientMetricsManager
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.messages.api_versions import ApiVersionsRequest
from kvorum.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kvorum.protocol.messages.push_telemetry import PushTelemetryRequest
from kvorum.protocol.uuids import Uuid
from kvorum.runtime.metrics import Metrics
from tests.unit.broker.api.api_kit import a_broker, ask

ME = Uuid(b"\x05" * 16)


def a_receiving_broker() -> tuple[Any, Any]:
    """A broker that receives clients' metrics, and its clock."""
    clock = SimpleNamespace(now_ms=0, monotonic_ms=lambda: clock.now_ms)
    return a_broker(telemetry=ClientMetricsManager(1_000_000, lambda: ME), clock=clock), clock


def offered(broker: Any) -> set[int]:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    return {each.api_key for each in ask(broker, request, 4).api_keys}


def test_it_is_offered_where_it_is_received_only() -> None:
    """As in Kafka, where no plug-in means that no client is told of it."""
    keys = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
    assert not keys & offered(a_broker())
    assert keys <= offered(a_receiving_broker()[0])


def test_a_client_gets_its_subscriptions_and_pushes() -> None:
    broker, clock = a_receiving_broker()
    reported = ask(broker, GetTelemetrySubscriptionsRequest(), 0, client_id="orders")
    assert (reported.client_instance_id, reported.push_interval, reported.telemetry_max_bytes) == (
        ME,
        300_000,
        1_000_000,
    )
    pushed = PushTelemetryRequest(client_instance_id=ME, subscription_id=reported.subscription_id)
    assert ask(broker, pushed, 0).error_code == 0
    assert broker.telemetry.count(clock.now_ms) == 1


def test_a_client_is_selected_by_connection_and_request_data() -> None:
    ctx = RequestContext(
        client_id="orders",
        client_address="10.0.0.9",
        software_name="librdkafka",
        software_version="2.16.1",
        connection_id="SOME-LISTENER-10.0.0.9:41234-7",
    )
    assert attributes_of(ctx) == {
        "client_id": "orders",
        "client_software_name": "librdkafka",
        "client_software_version": "2.16.1",
        "client_source_address": "10.0.0.9",
        "client_source_port": "41234",
    }
    assert "client_id" not in attributes_of(RequestContext())


def test_progress_is_reported_by_metrics() -> None:
    broker, clock = a_receiving_broker()
    metrics = Metrics()
    follow_client_metrics(metrics, broker.telemetry, clock.monotonic_ms)
    ask(broker, GetTelemetrySubscriptionsRequest(client_instance_id=ME), 0)
    page = metrics.render().decode()
    assert "kafka_server_client_metrics_instance_count 1.0" in page
    assert "kafka_server_client_metrics_throttle_total 0.0" in page
