"""What Prometheus is told of quotas: of who has one and used it, under Kafka's names."""

from typing import Any

from kvorum.broker.quota_figures import follow_quotas
from kvorum.network.authorizer import NoQuotas
from kvorum.network.context import RequestContext
from kvorum.network.quota_rate import Windows
from kvorum.network.quotas import BrokerQuotas
from kvorum.runtime.metrics import Metrics
from tests.unit.broker.api.api_kit import a_broker


def test_rates_and_throttle_times_are_reported_by_user_and_client_id() -> None:
    metrics, quotas = Metrics(), BrokerQuotas(lambda: 5.0, Windows(11, 1_000))
    follow_quotas(metrics, quotas, lambda: 5.0)
    quotas.update(
        [
            ((("client-id", "app"),), {"producer_byte_rate": 100.0, "consumer_byte_rate": 10.0}),
            ((("user", "ann"),), {"producer_byte_rate": 100.0}),
        ]
    )
    assert quotas.throttle_ms(RequestContext(client_id="app"), produced=1_500) == 5_000
    assert quotas.fetch_throttle_ms(RequestContext(client_id="app"), 50) == 0
    text = metrics.render().decode()
    assert 'kafka_server_produce_byte_rate{client_id="app",user=""} 150.0' in text
    assert 'kafka_server_produce_throttle_time{client_id="app",user=""} 5000.0' in text
    assert 'kafka_server_fetch_byte_rate{client_id="app",user=""} 5.0' in text
    assert 'kafka_server_fetch_throttle_time{client_id="app",user=""} NaN' in text
    assert "ann" not in text, "who has used nothing"


class Unasked(NoQuotas):
    """Quotas that must not be asked."""

    def throttle_ms(self, ctx: Any, *, produced: int = 0, exempt: bool = False) -> int:
        raise AssertionError("there are no quotas")


def test_without_quotas_no_usage_is_requested_and_the_last_response_is_discarded() -> None:
    ctx = RequestContext()
    ctx.throttle_ms = 70
    assert a_broker(quotas=Unasked()).throttle(ctx, produced=10) == 0
    assert ctx.throttle_ms == 0
