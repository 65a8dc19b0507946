"""Clients' metrics: who is asked for what, who is refused with which error, and what is kept of it, in virtual time."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kvorum.broker.telemetry.manager import EXPIRY_MS_MIN, INSTANCES_MAX, ClientMetricsManager, subscription_id
from kvorum.broker.telemetry.otlp import Point
from kvorum.broker.telemetry.series import SERIES_MAX, SERIES_PER_CLIENT_MAX, ClientSeries
from kvorum.protocol.compression import Codec, compress
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kvorum.protocol.messages.push_telemetry import PushTelemetryRequest
from kvorum.protocol.uuids import ONE_UUID, ZERO_UUID, Uuid
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.image.configs import ResourceType
from kvorum.quorum.records import Config

MAX_BYTES = 10_000
INTERVAL_MS = 1_000
JAVA = {"client_id": "orders-1", "client_software_name": "apache-kafka-java", "client_software_version": "4.3.0"}


def uuid(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


ME = uuid(77)


def gauge(name: str, value: float) -> bytes:
    """MetricsData with one number, each message shorter than 128 bytes."""

    def message(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    point = message(1, bytes([4 << 3 | 1]) + struct.pack("<d", value))
    return message(1, message(2, message(2, message(1, name.encode()) + message(5, point))))


class World:
    """A manager, its subscriptions, and clients that speak to it."""

    def __init__(self) -> None:
        ids: Iterator[Uuid] = map(uuid, range(1_000, 100_000))
        self.manager = ClientMetricsManager(MAX_BYTES, lambda: next(ids))
        self.image = MetadataImage()
        self.now_ms = -5_000  # a monotonic clock may start anywhere

    def subscribe(self, name: str = "all", **configs: str | None) -> None:
        delta = MetadataDelta(self.image)
        for key, value in configs.items():
            key = key.replace("_", ".")
            record = Config(resource_type=ResourceType.CLIENT_METRICS, resource_name=name, name=key, value=value)
            delta.replay(record)
        self.image = delta.apply(self.image.offset + 1, 1)
        self.manager.on_metadata_update(delta, self.image, None)  # type: ignore[arg-type]  # it is not looked at

    def get(
        self, instance_id: Uuid = ME, connection: str = "c1", **attributes: str
    ) -> GetTelemetrySubscriptionsResponse:
        request = GetTelemetrySubscriptionsRequest(client_instance_id=instance_id)
        return self.manager.get(request, {**JAVA, **attributes}, connection, self.now_ms)

    def push(self, instance_id: Uuid = ME, connection: str = "c1", **fields: object) -> None:
        reported = PushTelemetryRequest(
            client_instance_id=instance_id,
            **{"subscription_id": self.id_of(instance_id), "metrics": gauge("a", 1.0), **fields},
        )
        self.manager.push(reported, JAVA, connection, self.now_ms)

    def id_of(self, instance_id: Uuid) -> int:
        client = self.manager._instances.get(instance_id)
        return 0 if client is None else client.subscription_id

    def values(self) -> dict[str, float]:
        return {metric: value for (_, _, metric, _), value in self.manager.series.rows()}


@pytest.fixture
def world() -> World:
    """All metrics of all clients, each second."""
    world = World()
    world.subscribe(metrics="*", interval_ms=str(INTERVAL_MS))
    return world


@contextmanager
def refused(code: ErrorCode) -> Iterator[None]:
    with pytest.raises(KafkaError) as caught:
        yield
    assert caught.value.code is code


class TestSubscriptions:
    def test_a_client_without_an_id_gets_one_and_its_subscriptions(self, world: World) -> None:
        reported = world.get(ZERO_UUID)
        assert reported.client_instance_id == uuid(1_000)
        assert (reported.requested_metrics, reported.push_interval, reported.telemetry_max_bytes) == (
            ["*"],
            INTERVAL_MS,
            MAX_BYTES,
        )
        assert reported.accepted_compression_types == [4, 3, 1, 2]
        assert (reported.delta_temporality, reported.error_code) == (True, 0)
        assert world.get(ME).client_instance_id == ME

    def test_all_matching_subscriptions_are_combined_at_the_shortest_interval(self) -> None:
        world = World()
        assert (world.get().requested_metrics, world.get(uuid(1_000)).push_interval) == ([], 300_000)
        world.subscribe("producers", metrics="producer.,common.", interval_ms="60000", match="client_id=orders-.*")
        java = "client_software_name=apache-.*,client_software_version=4.3.*"
        world.subscribe("java", metrics="common.,jvm.", match=java)
        world.subscribe("others", metrics="*", interval_ms="100", match="client_id=orders")
        world.subscribe("nobody", metrics="*", interval_ms="100", match="client_source_port=1")
        reported = world.get()
        assert (reported.requested_metrics, reported.push_interval) == (["common.", "jvm.", "producer."], 60_000)
        assert world.get(uuid(5), client_id="orders").requested_metrics == ["*"]

    def test_another_subscription_is_reported_at_once_under_another_id(self, world: World) -> None:
        before = world.get().subscription_id
        with refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED):
            world.get()
        world.subscribe("more", metrics="a", interval_ms="500")
        reported = world.get()
        assert reported.subscription_id != before
        world.subscribe("more", metrics=None, interval_ms=None)
        assert world.get().subscription_id == before, "the same again"

    def test_the_subscription_id_is_the_crc_of_metrics_and_client_id(self) -> None:
        """As Java writes a set and hashes a Uuid; computed there."""
        assert subscription_id(["*"], 1_000, ZERO_UUID) == subscription_id(["*"], 1_000, Uuid(b"\xff" * 16))
        mixed = subscription_id(["*"], 1_000, Uuid(bytes(8) + b"\0\0\0\1\0\0\0\2"))
        assert mixed == subscription_id(["*"], 1_000, ZERO_UUID) ^ 3


class TestGet:
    def test_a_request_before_the_interval_ends_is_refused(self, world: World) -> None:
        world.get()
        world.now_ms += INTERVAL_MS - 1
        with refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED):
            world.get()
        world.now_ms += 1
        world.get()
        world.push()
        world.now_ms += INTERVAL_MS - 1
        with refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED):
            world.get()
        assert world.manager.throttled == 2

    def test_after_an_unknown_subscription_error_a_client_may_request_at_once(self, world: World) -> None:
        world.get()
        with refused(ErrorCode.UNKNOWN_SUBSCRIPTION_ID):
            world.push(subscription_id=world.id_of(ME) ^ 1)
        assert world.get().subscription_id == world.id_of(ME)
        assert world.manager.unknown_subscriptions == 1


class TestPush:
    def test_pushes_are_allowed_after_the_subscription_once_per_interval_and_at_the_end(self, world: World) -> None:
        world.get()
        world.push()
        with refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED):
            world.push()
        world.now_ms += INTERVAL_MS
        world.push(metrics=gauge("b", 2.0))
        world.push(metrics=gauge("b", 3.0), terminating=True)
        assert world.values() == {"a": 1.0, "b": 3.0}
        world.now_ms += INTERVAL_MS
        with refused(ErrorCode.INVALID_REQUEST):
            world.push(terminating=True)
        assert world.manager.exports == 3

    def test_without_the_right_id_it_is_refused(self, world: World) -> None:
        for instance_id in (ZERO_UUID, ONE_UUID):
            with refused(ErrorCode.INVALID_REQUEST):
                world.push(instance_id)
        with refused(ErrorCode.UNKNOWN_SUBSCRIPTION_ID):
            world.push(uuid(5))  # known elsewhere: another broker was asked, this one may find the same or not

    @pytest.mark.parametrize("codec", list(Codec))
    def test_it_may_be_compressed_in_any_way(self, world: World, codec: Codec) -> None:
        world.get()
        world.push(compression_type=codec, metrics=compress(codec, gauge("a", 5.0)))
        assert world.values() == {"a": 5.0}

    @pytest.mark.parametrize(
        ("fields", "code"),
        [
            ({"compression_type": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
            ({"compression_type": -1}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
            ({"metrics": bytes(MAX_BYTES + 1)}, ErrorCode.TELEMETRY_TOO_LARGE),
            (
                {"compression_type": 4, "metrics": compress(Codec.ZSTD, bytes(MAX_BYTES + 1))},
                ErrorCode.TELEMETRY_TOO_LARGE,
            ),
            ({"compression_type": 4}, ErrorCode.INVALID_RECORD),
            ({"metrics": b"\x0a\x05abc"}, ErrorCode.INVALID_RECORD),
        ],
    )
    def test_invalid_pushes_are_refused(self, world: World, fields: dict[str, object], code: ErrorCode) -> None:
        world.get()
        with refused(code):
            world.push(**fields)
        assert world.values() == {}

    def test_one_without_metrics_is_fine(self, world: World) -> None:
        world.get()
        world.push(metrics=b"")
        assert world.manager.exports == 0


class TestInstances:
    def test_a_disconnected_client_and_its_metrics_are_removed(self, world: World) -> None:
        world.get()
        world.push()
        world.manager.connection_closed("another")
        assert (world.manager.count(world.now_ms), len(world.manager.series)) == (1, 1)
        world.manager.connection_closed("c1")
        assert (world.manager.count(world.now_ms), len(world.manager.series)) == (0, 0)
        world.get(connection="c2")  # and is asked anew, before its interval is over

    def test_a_silent_one_is_forgotten(self, world: World) -> None:
        world.get()
        world.now_ms += EXPIRY_MS_MIN - 1
        assert world.manager.count(world.now_ms) == 1
        world.now_ms += 1
        assert world.manager.count(world.now_ms) == 0

    def test_the_longest_silent_makes_room(self, world: World) -> None:
        for number in range(INSTANCES_MAX):
            world.get(uuid(number + 2), f"c{number}")
        world.push(uuid(2), "c0")
        world.get(ONE_UUID, "last")
        assert world.manager.count(world.now_ms) == INSTANCES_MAX
        with refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED):
            world.get(uuid(2), "c0")
        world.get(uuid(3), "c1")  # it was the one


class TestSeries:
    def test_increments_are_summed_up_and_values_replaced(self) -> None:
        series = ClientSeries()
        for value in (1.0, 2.0):
            points = [Point("sent", (("topic", "orders"), ("x", "y")), value, True), Point("lag", (), value, False)]
            series.take("one", "client", points)
        assert dict(series.rows()) == {
            ("client", "one", "sent", "topic=orders,x=y"): 3.0,
            ("client", "one", "lag", ""): 2.0,
        }

    def test_there_is_a_limit_for_one_client_and_for_all(self) -> None:
        series = ClientSeries()
        points = [Point(f"m{number}", (), 1.0, False) for number in range(SERIES_PER_CLIENT_MAX + 1)]
        for number in range(SERIES_MAX // SERIES_PER_CLIENT_MAX):
            series.take(str(number), "client", points)
        assert (len(series), series.dropped) == (SERIES_MAX, SERIES_MAX // SERIES_PER_CLIENT_MAX)
        series.take("late", "client", points[:2])
        assert len(series) == SERIES_MAX
        series.forget("0")
        series.take("late", "client", points[:2])
        assert len(series) == SERIES_MAX - SERIES_PER_CLIENT_MAX + 2
