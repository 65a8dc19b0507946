"""Kafka's client settings under the names of the Java clients, translated to those of librdkafka.

Options with the prefix `kafka.` are client settings. Most names are equal; others are translated or, without a
counterpart, ignored. librdkafka rejects unknown names. Those of security may have Java's names or librdkafka's with
both connectors (kvorum.security, which only the driver needs: executors get librdkafka's settings).
"""

import re
from collections.abc import Mapping

import confluent_kafka
from confluent_kafka import KafkaError

Settings = dict[str, str]

PREFIX = "kafka."
RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
}
SECURITY_PREFIXES = ("enable.sasl.", "enable.ssl.", "sasl.", "security.", "ssl.")
# Settings of the Java clients without an effect here.
WITHOUT_COUNTERPART = {
    *("auto.include.jmx.reporter", "metric.reporters", "metrics.num.samples", "metrics.recording.level"),
    *("metrics.sample.window.ms", "default.api.timeout.ms", "max.block.ms", "max.poll.records"),
    "exclude.internal.topics",
}
# Set by the source and the sink, whose guarantees depend on the values.
OURS = {
    *("auto.offset.reset", "enable.auto.commit", "enable.auto.offset.store", "enable.partition.eof"),
    *("delivery.report.only.error", "interceptor.classes", "partitioner", "partitioner.class", "transactional.id"),
    *("key.deserializer", "key.serializer", "value.deserializer", "value.serializer"),
}
# A producer logs a warning for settings of consumers, and the other way round.
OF_CONSUMERS = re.compile(
    r"fetch\.|queued\.|isolation\.level|group\.|max\.partition\.fetch|check\.crcs|max\.poll|session\.timeout"
)
OF_PRODUCERS = re.compile(
    r"queue\.buffering|linger\.ms|batch\.|acks|compression|enable\.idempotence|transaction|delivery\.timeout"
    r"|message\.(send|timeout)|retries$|sticky|request\.timeout|request\.required|max\.in\.flight"
)

# Temporary: a leader or a coordinator moves, a broker restarts.
PASSING = {
    *(KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE, KafkaError._TRANSPORT, KafkaError.NETWORK_EXCEPTION),
    *(KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError.REQUEST_TIMED_OUT),
    *(KafkaError._WAIT_CACHE, KafkaError._WAIT_COORD, KafkaError.CONCURRENT_TRANSACTIONS),
    *(KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR),
    *(KafkaError.BROKER_NOT_AVAILABLE, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION),
    *(KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.REPLICA_NOT_AVAILABLE),
    *(KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
    *(KafkaError.OFFSET_NOT_AVAILABLE, KafkaError.UNSTABLE_OFFSET_COMMIT),
}
# A later client with the same transactional id has taken over.
FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}


class OptionError(ValueError):
    """An invalid option; the message names it."""


def is_passing(error: KafkaError) -> bool:
    """Return whether an error is temporary, so that the same call may succeed later."""
    is_final = error.fatal() or error.txn_requires_abort()
    return not is_final and (error.retriable() or error.code() in PASSING)


def error_of(exception: confluent_kafka.KafkaException) -> KafkaError:
    """Return the error of a client's exception."""
    error = exception.args[0]
    assert isinstance(error, KafkaError), exception
    return error


def from_options(options: Mapping[str, str]) -> Settings:
    """Return librdkafka's settings for the `kafka.` options. Raises OptionError for a missing or invalid one."""
    given = {key[len(PREFIX) :].lower(): value for key, value in options.items() if key.lower().startswith(PREFIX)}
    if not given.get("bootstrap.servers"):
        raise OptionError(
            "option kafka.bootstrap.servers is missing: the addresses of the cluster, HOST:PORT,HOST:PORT"
        )
    settings: Settings = {}
    for name, value in given.items():
        if name in OURS:
            raise OptionError(f"option kafka.{name} is not supported: the data source sets it itself")
        if name not in WITHOUT_COUNTERPART and not name.startswith(SECURITY_PREFIXES):
            settings |= translated(name, value)
    return settings | security(given)


def security(given: Mapping[str, str]) -> Settings:
    """Return librdkafka's settings of security. Raises OptionError."""
    if not any(name.startswith(SECURITY_PREFIXES) for name in given):
        return {}
    from kvorum.runtime.config import ConfigError
    from kvorum.security.librdkafka import librdkafka_security

    try:
        return librdkafka_security(given)
    except ConfigError as error:
        raise OptionError(f"option {PREFIX}{error.key}: {error.reason}") from None


def for_java(options: Mapping[str, str]) -> dict[str, str]:
    """Return options for Spark's connector: librdkafka's names of security become Java's. Raises OptionError."""
    given = {key[len(PREFIX) :]: value for key, value in options.items() if key.startswith(PREFIX)}
    given = {name: value for name, value in given.items() if name.startswith(SECURITY_PREFIXES)}
    if not given:
        return dict(options)
    from kvorum.security.client_properties import ALSO_RDKAFKA, java_properties
    from kvorum.security.errors import SecurityConfigError

    if not given.keys() & ALSO_RDKAFKA:
        return dict(options)
    try:
        found = java_properties(given)
    except SecurityConfigError as error:
        raise OptionError(f"option {PREFIX}{error}") from None
    others = {key: value for key, value in options.items() if key.removeprefix(PREFIX) not in given}
    return others | {f"{PREFIX}{name}": value for name, value in found.items()}


def translated(name: str, value: str) -> Settings:
    """Return one setting of the Java clients as librdkafka's."""
    if name == "buffer.memory":
        return {"queue.buffering.max.kbytes": str(max(1, int(value) // 1024))}
    return {RENAMED.get(name, name): value}


def for_consumer(settings: Settings, group_id: str) -> Settings:
    """Return a consumer's settings: no commits; the end of a partition is reported."""
    defaults = {
        # A range that ends with a transaction's marker ends after an empty fetch, which waits this long.
        "fetch.wait.max.ms": "50",
        "fetch.error.backoff.ms": "100",
        "queued.min.messages": "100000",
        "queued.max.messages.kbytes": "65536",
        "isolation.level": "read_uncommitted",
        "group.id": group_id,
    }
    ours = {
        "auto.offset.reset": "error",
        "enable.auto.commit": "false",
        "enable.auto.offset.store": "false",
        "enable.partition.eof": "true",
    }
    return defaults | common(settings, OF_PRODUCERS) | ours


def for_producer(settings: Settings) -> Settings:
    """Return a producer's settings: idempotent, with the partitioner of the Java clients."""
    defaults = {
        "acks": "all",
        "linger.ms": "20",
        "queue.buffering.max.messages": "500000",
        "queue.buffering.max.kbytes": "131072",
    }
    if settings.get("acks", "all") in ("all", "-1"):
        defaults["enable.idempotence"] = "true"
    ours = {"partitioner": "murmur2_random"}
    return defaults | common(settings, OF_CONSUMERS) | ours


def for_admin(settings: Settings) -> Settings:
    """Return an admin client's settings."""
    return {key: value for key, value in common(settings, OF_CONSUMERS).items() if not OF_PRODUCERS.match(key)}


def common(settings: Settings, without: re.Pattern[str]) -> Settings:
    """Return the settings without those of the other kind of client."""
    return {"log.connection.close": "false"} | {k: v for k, v in settings.items() if not without.match(k)}


def refused(exception: confluent_kafka.KafkaException) -> OptionError:
    """Return the error for a client that was not created: librdkafka's message names the setting."""
    return OptionError(f"options kafka.*: {error_of(exception).str()}")
