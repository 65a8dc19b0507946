"""Translates properties of Kafka's Java clients for librdkafka.

Sans-IO.

A file for Kafka's own tools can be used unchanged. Equal names are kept; other names or units are translated; Java-only
properties are listed, so that a command can report them. librdkafka rejects unknown ones.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

INTERNAL_TOPICS = "^__(consumer_offsets|transaction_state|share_group_state)$"
"""Topics that exclude.internal.topics, on by default, keeps from a subscription by pattern."""

JAVA_ONLY = frozenset(
    (
        *("key.serializer", "value.serializer", "key.deserializer", "value.deserializer"),
        *(
            "max.block.ms",
            "default.api.timeout.ms",
            "metric.reporters",
            "interceptor.classes",
            "auto.include.jmx.reporter",
        ),
        *("metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms"),
        *("partitioner.ignore.keys", "partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms"),
        *("security.providers", "socket.connection.setup.timeout.max.ms", "config.providers", "group.protocol.type"),
        *("metadata.max.idle.ms", "bootstrap.controllers"),
    )
)
"""Properties that librdkafka has no room for, and whose absence changes no record."""

ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
RESETS = {"none": "error"}
BUFFER_OF_THE_SYSTEM = -1
EXCLUDE_INTERNAL = "exclude.internal.topics"
BLACKLIST = "topic.blacklist"
LEVEL = re.compile(r"compression\.(gzip|lz4|zstd)\.level")


class LibrdkafkaProperties(NamedTuple):
    """Properties for an unmodified client, and those that it ignores."""

    properties: dict[str, Any]
    ignored: list[str]


class PropertyError(ValueError):
    """A property that librdkafka does not support, with the reason."""


def translate_properties(java: Mapping[str, Any]) -> LibrdkafkaProperties:
    """Return properties as librdkafka has them. Raises PropertyError."""
    found: dict[str, Any] = {}
    for key, value in java.items():
        level = LEVEL.fullmatch(key)
        if key in JAVA_ONLY or key == EXCLUDE_INTERNAL or (level and java.get("compression.type") != level[1]):
            continue
        name, convert = ("compression.level", as_it_is) if level else NAMES.get(key, (key, as_it_is))
        found[name] = convert(key, value)
    if str(java.get(EXCLUDE_INTERNAL, "true")).strip().lower() == "false":
        found.pop(BLACKLIST, None)
    return LibrdkafkaProperties(found, sorted(JAVA_ONLY & java.keys()))


def as_it_is(key: str, value: Any) -> Any:
    """Return a value that is the same in both."""
    return value


def assignors(key: str, value: Any) -> Any:
    """Return assignment strategies by their short names. Raises PropertyError for an unknown one."""
    names = [name.strip() for name in str(value).split(",") if name.strip()]
    known = {*ASSIGNORS.values(), *ASSIGNORS}
    for name in names:
        if name.rpartition(".")[2] not in known:
            raise PropertyError(f"{key}={name}: use one of {', '.join(ASSIGNORS)}")
    return ",".join(ASSIGNORS.get(name.rpartition(".")[2], name) for name in names)


def socket_buffer(key: str, value: Any) -> Any:
    """Return a socket's buffer: -1 is the system's choice for Java, 0 for librdkafka."""
    return 0 if whole(key, value) == BUFFER_OF_THE_SYSTEM else value


def kilobytes(key: str, value: Any) -> int:
    """Return bytes as KiB, one at the least."""
    return max(1, whole(key, value) // 1024)


def reset(key: str, value: Any) -> Any:
    """Return what to do without an offset."""
    return RESETS.get(str(value), value)


def partitioner(key: str, value: Any) -> None:
    """Refuse a class of Java's. Raises PropertyError."""
    raise PropertyError(
        f"{key}={value}: Java classes are not supported; use `partitioner` with a librdkafka partitioner"
    )


def whole(key: str, value: Any) -> int:
    """Return a whole number. Raises PropertyError."""
    try:
        return int(value)
    except (TypeError, ValueError):
        raise PropertyError(f"{key}={value} is not a number") from None


NAMES: Mapping[str, tuple[str, Callable[[str, Any], Any]]] = {
    "fetch.max.wait.ms": ("fetch.wait.max.ms", as_it_is),
    "send.buffer.bytes": ("socket.send.buffer.bytes", socket_buffer),
    "receive.buffer.bytes": ("socket.receive.buffer.bytes", socket_buffer),
    "max.request.size": ("message.max.bytes", as_it_is),
    "buffer.memory": ("queue.buffering.max.kbytes", kilobytes),
    "partition.assignment.strategy": ("partition.assignment.strategy", assignors),
    "partitioner.class": ("partitioner", partitioner),
    "auto.offset.reset": ("auto.offset.reset", reset),
}
"""librdkafka's name of a Java property, and the conversion of its value."""
