"""Subscriptions and pushes of client metrics (KIP-714). Sans-IO: time and randomness are passed in.

A client instance is identified by an id from its first response, which it keeps as long as it runs, with every broker.
It gets the metrics to push and the interval, under a subscription id that changes with them; from then on it may push
once per interval, at once after a request for its subscriptions, and once more when it ends.

    unknown --request or push--> known     subscriptions changed: evaluated again with its next request
    known --connection closed, silent for three intervals (at least a minute), too many known--> unknown

Each broker decides for itself. Source: Kafka's ClientMetricsManager, ClientMetricsInstance.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from crc32c import crc32c

from kvorum.broker.telemetry.otlp import Malformed, points_of
from kvorum.broker.telemetry.series import SERIES_PER_CLIENT_MAX, ClientSeries
from kvorum.protocol.compression import Codec, decompress
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kvorum.protocol.messages.push_telemetry import PushTelemetryRequest
from kvorum.protocol.uuids import ONE_UUID, ZERO_UUID, Uuid
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.image.client_metrics import ALL_METRICS, INTERVAL_MS_DEFAULT, METRICS, Subscription, subscription_of
from kvorum.quorum.image.configs import ConfigsImage, ResourceType
from kvorum.quorum.publisher import LoaderManifest
from kvorum.runtime.logs import get_logger

INSTANCES_MAX: Final = 16_384
"""Client instances known at a time (Kafka's CACHE_MAX_SIZE); the longest silent makes room."""
EXPIRY_MS_MIN: Final = 60_000
"""Expiry of a silent instance (Kafka's DEFAULT_CACHE_EXPIRY_MS), or three times its interval."""
ACCEPTED_CODECS: Final = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
"""In the order that clients should prefer."""
INSTANCE_ID: Final = "client_instance_id"
NEVER_MS: Final = -(2**62)
RETRIED_AT_ONCE: Final = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
"""After these a client may send its next request before its interval is over."""

log = get_logger("broker")


class ClientInstance:
    """One client, according to the subscriptions of `version`. Times are monotonic milliseconds."""

    __slots__ = (
        *("attributes", "connection_id", "expires_ms", "interval_ms", "is_terminating", "last_error", "last_get_ms"),
        *("last_push_ms", "metrics", "subscription_id", "version"),
    )

    def __init__(
        self,
        instance_id: Uuid,
        attributes: Mapping[str, str],
        connection_id: str,
        subscriptions: Iterable[Subscription],
        version: int,
    ) -> None:
        """Judge it: all metrics of all subscriptions that match, at the shortest of their intervals."""
        self.attributes = attributes
        self.connection_id = connection_id
        self.version = version
        matching = [each for each in subscriptions if each.matches(attributes)]
        wanted = sorted({metric for each in matching for metric in each.metrics})
        self.metrics = [ALL_METRICS] if ALL_METRICS in wanted else wanted
        self.interval_ms = min((INTERVAL_MS_DEFAULT, *(each.interval_ms for each in matching)))
        self.subscription_id = subscription_id(self.metrics, self.interval_ms, instance_id)
        self.last_get_ms = NEVER_MS
        self.last_push_ms = NEVER_MS
        self.expires_ms = NEVER_MS
        self.is_terminating = False
        self.last_error = ErrorCode.NONE

    def may_ask(self, now_ms: int) -> bool:
        """Return whether an interval has passed since its last request, and store the time."""
        if now_ms - max(self.last_get_ms, self.last_push_ms) < self.interval_ms:
            return False
        self.last_get_ms = now_ms
        return True

    def may_push(self, now_ms: int) -> bool:
        """Return whether a push is on time (after a subscription request, or an interval after the last); record it."""
        if self.last_get_ms <= self.last_push_ms and now_ms - self.last_push_ms < self.interval_ms:
            return False
        self.last_push_ms = now_ms
        return True


class ClientMetricsManager:
    """Handles client metrics subscriptions and pushes. One per broker."""

    def __init__(self, max_bytes: int, new_id: Callable[[], Uuid]) -> None:
        """`max_bytes` is telemetry.max.bytes, of a push as it comes and when it is inflated."""
        self._max_bytes = max_bytes
        self._new_id = new_id
        self._subscriptions: dict[str, Subscription] = {}
        self._version = 0
        self._instances: OrderedDict[Uuid, ClientInstance] = OrderedDict()
        self._by_connection: dict[str, Uuid] = {}
        self.series = ClientSeries()
        self.unknown_subscriptions = self.throttled = self.exports = self.export_errors = self.exported_bytes = 0

    def on_metadata_update(self, delta: MetadataDelta, image: MetadataImage, manifest: LoaderManifest) -> None:
        """See MetadataPublisher: take over the subscriptions that changed."""
        changed = delta.configs_delta.changes
        self.set_configs(
            image.configs, [each.name for each in changed if each.resource_type == ResourceType.CLIENT_METRICS]
        )

    def set_configs(self, configs: ConfigsImage, names: Iterable[str]) -> None:
        """Apply the present subscriptions of these names."""
        for name in names:
            values = configs.of(ResourceType.CLIENT_METRICS, name)
            self._version += 1
            self._subscriptions.pop(name, None)
            if not values:
                log.info("client metrics subscription removed", name=name)
                continue
            try:
                self._subscriptions[name] = subscription_of(name, values)
                log.info("client metrics subscription changed", name=name, metrics=values.get(METRICS, ""))
            except KafkaError as error:  # the controller has checked it: a release that knows better wrote it
                log.error("client metrics subscription ignored", name=name, reason=error)

    def get(
        self, request: GetTelemetrySubscriptionsRequest, attributes: Mapping[str, str], connection_id: str, now_ms: int
    ) -> GetTelemetrySubscriptionsResponse:
        """Return a client's subscriptions.

        Raises:
            KafkaError: THROTTLING_QUOTA_EXCEEDED (too early, without a reason).
        """
        instance_id = request.client_instance_id
        if instance_id == ZERO_UUID:
            instance_id = self._unused_id()
        client = self._client(instance_id, attributes, connection_id, now_ms)
        if not client.may_ask(now_ms) and client.last_error not in RETRIED_AT_ONCE:
            self.throttled += 1
            raise too_early(instance_id)
        client.last_error = ErrorCode.NONE
        return GetTelemetrySubscriptionsResponse(
            client_instance_id=instance_id,
            subscription_id=client.subscription_id,
            accepted_compression_types=[*ACCEPTED_CODECS],
            push_interval=client.interval_ms,
            telemetry_max_bytes=self._max_bytes,
            delta_temporality=True,
            requested_metrics=list(client.metrics),
        )

    def push(
        self, request: PushTelemetryRequest, attributes: Mapping[str, str], connection_id: str, now_ms: int
    ) -> None:
        """Receive a client's push.

        Raises:
            KafkaError: INVALID_REQUEST (no id, or a push after its last one), THROTTLING_QUOTA_EXCEEDED (too early),
                UNKNOWN_SUBSCRIPTION_ID (get them again), UNSUPPORTED_COMPRESSION_TYPE, TELEMETRY_TOO_LARGE,
                INVALID_RECORD (unreadable: the client stops pushing).
        """
        instance_id = request.client_instance_id
        if instance_id in (ZERO_UUID, ONE_UUID):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"invalid client instance id {instance_id}")
        client = self._client(instance_id, attributes, connection_id, now_ms)
        try:
            self._check(client, instance_id, request, now_ms)
            if request.metrics:
                self._export(instance_id, attributes, request)
            client.last_error = ErrorCode.NONE
        except KafkaError as error:
            client.last_error = error.code
            raise
        finally:
            client.is_terminating = request.terminating

    def connection_closed(self, connection_id: str) -> None:
        """Remove the instance of a connection, if there is one."""
        instance_id = self._by_connection.get(connection_id)
        if instance_id is not None:
            self._forget(instance_id)

    def count(self, now_ms: int) -> int:
        """Return how many instances are known. O(instances)."""
        for instance_id in [each for each, client in self._instances.items() if client.expires_ms <= now_ms]:
            self._forget(instance_id)
        return len(self._instances)

    def _check(self, client: ClientInstance, instance_id: Uuid, request: PushTelemetryRequest, now_ms: int) -> None:
        if client.is_terminating:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"client {instance_id} has already sent its final push")
        if not client.may_push(now_ms) and not request.terminating:
            self.throttled += 1
            raise too_early(instance_id)
        if request.subscription_id != client.subscription_id:
            self.unknown_subscriptions += 1
            raise KafkaError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID, f"unknown subscription id of client {instance_id}")
        if request.compression_type not in [*Codec]:
            message = f"unknown compression type {request.compression_type} of client {instance_id}"
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, message)
        if len(request.metrics) > self._max_bytes:
            raise self._too_large(instance_id)

    def _export(self, instance_id: Uuid, attributes: Mapping[str, str], request: PushTelemetryRequest) -> None:
        """Add pushed metrics to the series. Raises KafkaError TELEMETRY_TOO_LARGE, INVALID_RECORD."""
        try:
            data = decompress(Codec(request.compression_type), request.metrics, self._max_bytes)
            points, are_more = points_of(data, SERIES_PER_CLIENT_MAX)
        except KafkaError as error:
            self.export_errors += 1
            raise self._too_large(instance_id) if error.code is ErrorCode.MESSAGE_TOO_LARGE else error from error
        except Malformed as error:
            self.export_errors += 1
            log.warning("client metrics cannot be decoded", client_instance_id=instance_id, reason=error)
            raise KafkaError(ErrorCode.INVALID_RECORD, f"the metrics cannot be decoded: {error}") from error
        self.exports += 1
        self.exported_bytes += len(request.metrics)
        self.series.take(str(instance_id), attributes.get("client_id", ""), points)
        self.series.dropped += are_more

    def _too_large(self, instance_id: Uuid) -> KafkaError:
        message = f"telemetry of client {instance_id} is larger than telemetry.max.bytes ({self._max_bytes})"
        return KafkaError(ErrorCode.TELEMETRY_TOO_LARGE, message)

    def _client(
        self, instance_id: Uuid, attributes: Mapping[str, str], connection_id: str, now_ms: int
    ) -> ClientInstance:
        """Return the instance, judged by the subscriptions of now, as the one seen last."""
        client = self._instances.get(instance_id)
        if client is not None and client.expires_ms <= now_ms:
            self._forget(instance_id)
            client = None
        if client is None or client.version != self._version:
            if client is None and len(self._instances) >= INSTANCES_MAX:
                self._forget(next(iter(self._instances)))
            judged = {**attributes, INSTANCE_ID: str(instance_id)} if client is None else client.attributes
            if client is not None:
                self._by_connection.pop(client.connection_id, None)
            client = ClientInstance(instance_id, judged, connection_id, self._subscriptions.values(), self._version)
            self._instances[instance_id] = client
            self._by_connection[connection_id] = instance_id
        self._instances.move_to_end(instance_id)
        client.expires_ms = now_ms + max(EXPIRY_MS_MIN, 3 * client.interval_ms)
        return client

    def _forget(self, instance_id: Uuid) -> None:
        client = self._instances.pop(instance_id, None)
        if client is not None:
            self._by_connection.pop(client.connection_id, None)
        self.series.forget(str(instance_id))

    def _unused_id(self) -> Uuid:
        found = self._new_id()
        while found in self._instances or found in (ZERO_UUID, ONE_UUID):
            found = self._new_id()
        return found


def too_early(instance_id: Uuid) -> KafkaError:
    """Return the refusal of a request before the next interval."""
    message = f"request from client {instance_id} arrived before the next push interval time"
    return KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, message)


def subscription_id(metrics: list[str], interval_ms: int, instance_id: Uuid) -> int:
    """Return the id of a client's subscriptions: a CRC-32C of them, mixed with Java's hash of its own id (int32)."""
    text = f"[{', '.join(metrics)}]{interval_ms}"
    most, least = int.from_bytes(instance_id[:8], "big"), int.from_bytes(instance_id[8:], "big")
    mixed = most ^ least
    hashed = (mixed >> 32) ^ (mixed & 0xFFFFFFFF)
    found: int = crc32c(text.encode()) ^ hashed
    return found - (1 << 32) if found >> 31 else found
