"""Metrics of the broker process about its logs, partitions and requests, read at each scrape.

A partition is exposed by its leader, so that each appears once in the whole cluster: also under kafka_exporter's names,
which makes that exporter unnecessary. Logs are exposed by every broker that has one. Before the broker has built its
parts, and after it has closed them, there is nothing to expose. A scrape reads them in slices, between which the loop
does other work: so they are listed first, and one that is deleted in between has its last value.

The bytes, records and requests of each topic are counted on their path (`broker.replica.figures`), those of each
connection in `network.metrics`.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from kvorum.broker.metadata.cache import METADATA_TOPIC
from kvorum.broker.metadata.lifecycle import BrokerState
from kvorum.broker.parts import Parts
from kvorum.broker.replica.health import is_at_min_isr, is_under_min_isr, is_under_replicated
from kvorum.broker.replica.partition import Partition
from kvorum.broker.server import BrokerServer
from kvorum.cluster.metrics.process_metrics import of_volume
from kvorum.runtime import metric_names as names
from kvorum.runtime.clock import Clock
from kvorum.runtime.metrics import Metrics
from kvorum.storage.log import Log

Row = tuple[tuple[object, ...], float]

OBSERVER_STATE: Final = "observer"
"""A broker follows the quorum and never votes."""
NO_VOTE: Final = -1

OF_A_LOG: Final[dict[str, Callable[[Log], float]]] = {
    names.LOG_SIZE: lambda log: log.size,
    names.LOG_START_OFFSET: lambda log: log.log_start_offset,
    names.LOG_END_OFFSET: lambda log: log.log_end_offset,
    names.LOG_SEGMENTS: lambda log: log.segment_count,
}

OF_A_LED_PARTITION: Final[dict[str, Callable[[Partition], float]]] = {
    names.PARTITION_UNDER_MIN_ISR: is_under_min_isr,
    names.PARTITION_AT_MIN_ISR: is_at_min_isr,
    names.PARTITION_REPLICAS_COUNT: lambda led: len(led.assigned_replicas),
    names.PARTITION_IN_SYNC_REPLICAS_COUNT: lambda led: len(led.isr),
    names.TOPIC_PARTITION_CURRENT_OFFSET: lambda led: led.log.high_watermark if led.log is not None else 0,
    names.TOPIC_PARTITION_OLDEST_OFFSET: lambda led: led.log.log_start_offset if led.log is not None else 0,
    names.TOPIC_PARTITION_LEADER: lambda led: led.leader_id,
    names.TOPIC_PARTITION_REPLICAS: lambda led: len(led.assigned_replicas),
    names.TOPIC_PARTITION_IN_SYNC_REPLICA: lambda led: len(led.isr),
    names.TOPIC_PARTITION_LEADER_IS_PREFERRED: lambda led: led.assigned_replicas[0] == led.broker_id,
    names.TOPIC_PARTITION_UNDER_REPLICATED: is_under_replicated,
}


def follow_broker(metrics: Metrics, server: BrokerServer, clock: Clock, *, exposes_raft: bool) -> None:
    """Register all broker metrics. Call before `server.start`; values that do not exist yet are exposed later.

    `exposes_raft` is for a node that is only a broker. Kafka has one Raft client per node, and dashboards sum the
    values of a node: on a combined node only the controller exposes Raft's metrics.
    """
    for name, of_log in OF_A_LOG.items():
        metrics.gauge(name).sample(partial(_logs, server, of_log))
    for name, of_partition in OF_A_LED_PARTITION.items():
        metrics.gauge(name).sample(partial(_leader_rows, server, of_partition))
    metrics.gauge(names.TOPIC_PARTITIONS).sample(partial(_topics, server))
    metrics.gauge(names.BROKER_INFO).sample(partial(_identity, server))
    metrics.gauge(names.QUEUED_REQUESTS).labels().follow(lambda: server.queued_requests)
    metrics.gauge(names.QUEUED_REQUEST_BYTES).labels().follow(lambda: server.queued_request_bytes)
    metrics.gauge(names.CONFIGS_LEFT_OUT).sample(partial(_left_out_rows, server))
    metrics.gauge(names.LOG_DIRECTORY_OFFLINE).sample(partial(_directories, server))
    metrics.gauge(names.LOG_DIRECTORY_FREE_BYTES).sample(partial(_volumes, server, server.disk.free_bytes))
    metrics.gauge(names.LOG_DIRECTORY_TOTAL_BYTES).sample(partial(_volumes, server, server.disk.total_bytes))
    _follow_parts(metrics, server, clock)
    if exposes_raft:
        _follow_raft(metrics, server, clock)


def _follow_parts(metrics: Metrics, server: BrokerServer, clock: Clock) -> None:
    """Register the metrics with one value per broker."""

    def lag_ms(parts: Parts) -> float:
        timestamp_ms = parts.loader.timestamp_ms
        return 0 if timestamp_ms < 0 else max(0, clock.wall_ms() - timestamp_ms)

    def state(parts: Parts) -> float:
        lifecycle = parts.registration.lifecycle
        return (BrokerState.STARTING if lifecycle is None else lifecycle.state).value

    of_parts: dict[str, Callable[[Parts], float]] = {
        names.OFFLINE_LOG_DIRECTORY_COUNT: lambda parts: sum(not each.is_online for each in parts.log_manager.dirs),
        names.BROKER_STATE: state,
        names.BROKER_METADATA_OFFSET: lambda parts: parts.loader.offset,
        names.BROKER_METADATA_LAG: lag_ms,
        names.BROKER_METADATA_APPLY_ERRORS: lambda parts: parts.broker.configs.errors,
        names.CURRENT_METADATA_VERSION: lambda parts: parts.loader.image.features.metadata_version,
        names.CURRENT_CONTROLLER_ID: _leader,
        names.SNAPSHOT_BYTES: lambda parts: parts.loader.snapshot[0],
        names.SNAPSHOT_AGE_MS: lambda parts: parts.loader.snapshot[1],
    }
    for name, read in of_parts.items():
        metrics.gauge(name).sample(partial(_read, server, read))


def _follow_raft(metrics: Metrics, server: BrokerServer, clock: Clock) -> None:
    """Register the metrics of a quorum observer. It commits and elects nothing, so it has no latencies."""

    def of_metadata_log(read: Callable[[Log], float]) -> Callable[[Parts], float]:
        return lambda parts: -1 if parts.loader.log is None else read(parts.loader.log)

    gauges: dict[str, Callable[[Parts], float]] = {
        names.RAFT_CURRENT_LEADER: _leader,
        names.RAFT_CURRENT_EPOCH: lambda parts: parts.loader.image.epoch,
        names.RAFT_CURRENT_VOTE: lambda _: NO_VOTE,
        names.RAFT_HIGH_WATERMARK: of_metadata_log(lambda log: log.high_watermark),
        names.RAFT_LOG_END_OFFSET: of_metadata_log(lambda log: log.log_end_offset),
        names.RAFT_LOG_END_EPOCH: lambda parts: parts.loader.log_end_epoch,
        names.RAFT_FETCH_RECORDS_RATE: lambda parts: parts.loader.fetched.rate(clock.monotonic_ms()),
        names.RAFT_APPEND_RECORDS_RATE: lambda _: 0,
    }
    counters: dict[str, Callable[[Parts], float]] = {
        names.RAFT_REQUESTS: lambda parts: parts.loader.traffic.frames_sent,
        names.RAFT_OUTGOING_BYTES: lambda parts: parts.loader.traffic.bytes_sent,
        names.RAFT_RESPONSES: lambda parts: parts.loader.traffic.frames_received,
        names.RAFT_INCOMING_BYTES: lambda parts: parts.loader.traffic.bytes_received,
    }
    for name, read in gauges.items():
        metrics.gauge(name).sample(partial(_read, server, read))
    for name, read in counters.items():
        metrics.counter(name).sample(partial(_read, server, read))
    for name in (names.RAFT_STATE, names.RAFT_CURRENT_STATE):
        metrics.gauge(name).sample(lambda: [] if server.parts is None else [((OBSERVER_STATE,), 1)])


def _read(server: BrokerServer, read: Callable[[Parts], float]) -> list[Row]:
    return [] if server.parts is None else [((), read(server.parts))]


def _leader(parts: Parts) -> float:
    return -1 if parts.loader.leader_id is None else parts.loader.leader_id


def _directories(server: BrokerServer) -> Iterator[Row]:
    """Go over the log directories: whether each is out of service."""
    for directory in () if server.parts is None else server.parts.log_manager.dirs:
        yield (directory.path,), not directory.is_online


def _volumes(server: BrokerServer, read: Callable[[str], int]) -> Iterator[Row]:
    """Yield free and total space of the volumes of online log directories."""
    for directory in () if server.parts is None else server.parts.log_manager.dirs:
        if directory.is_online:
            yield from of_volume(directory.path, read)


def _logs(server: BrokerServer, read: Callable[[Log], float]) -> Iterator[Row]:
    """Yield the usable logs here, including the copy of the metadata log."""
    parts = server.parts
    if parts is None:
        return
    for log in tuple(parts.log_manager.logs()):
        if log.failure is None:
            yield tuple(log.partition), read(log)
    if parts.loader.log is not None:
        yield (METADATA_TOPIC, 0), read(parts.loader.log)


def _leader_rows(server: BrokerServer, read: Callable[[Partition], float]) -> Iterator[Row]:
    """Go over the partitions led here."""
    if server.parts is not None:
        for led in tuple(server.parts.replica_manager.hosted.leaders()):
            yield tuple(led.topic_partition), read(led)


def _left_out_rows(server: BrokerServer) -> Iterator[Row]:
    parts = server.parts
    for each in () if parts is None else parts.broker.configs.layers.left_out:
        yield (each.key, each.layer), 1


def _topics(server: BrokerServer) -> Iterator[Row]:
    """Iterate over the topics whose first partition this broker leads, so that each topic has one reporter."""
    parts = server.parts
    if parts is None:
        return
    for led in tuple(parts.replica_manager.hosted.leaders()):
        topic, index = led.topic_partition
        image = parts.broker.metadata.topic(topic) if index == 0 else None
        if image is not None:
            yield (topic,), len(image.partitions)


def _identity(server: BrokerServer) -> Iterator[Row]:
    """Register this broker's identity; a stopped broker is no longer exposed."""
    address = server.advertised_address
    if server.parts is not None and address is not None:
        yield (server.broker_id, address), 1
