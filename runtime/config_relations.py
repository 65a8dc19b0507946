"""Rules that several keys of one node's configuration have to satisfy together (Kafka's KafkaConfig.validateValues).

Sans-IO. `RELATIONS` holds for static files and for dynamic configs laid over them: a node's start, `kvorum configs
validate`, IncrementalAlterConfigs and the applier of dynamic configs use the same table. Rules for a change of a
running broker are in config_changes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kvorum.runtime.config import ConfigError, Settings

DEDUPE_BYTES_MIN_PER_THREAD: Final = 1 << 20
EVERY_LOG_DIR: Final = "*"


@dataclass(frozen=True, slots=True)
class Relation:
    """One rule: the keys that decide it, and a check that raises ConfigError for the key to change."""

    keys: tuple[str, ...]
    check: Callable[[Settings], None]


def refuse(settings: Settings, key: str, reason: str) -> ConfigError:
    """Return the error for a key, with its text and its source."""
    return ConfigError(key, settings.raw(key), settings.source(key).where, reason)


def at_most(low: str, high: str, why: str = "") -> Relation:
    """Return the rule that one number is at most another."""

    def check(settings: Settings) -> None:
        if settings.int(low) > settings.int(high):
            raise refuse(settings, low, f"must be at most {high} ({settings.int(high)}){why}")

    return Relation((low, high), check)


def within(key: str, low: str, high: str) -> Relation:
    """Return the rule that a default is within the bounds for groups."""

    def check(settings: Settings) -> None:
        least, most = settings.int(low), settings.int(high)
        if not least <= settings.int(key) <= most:
            raise refuse(settings, key, f"must be from {low} ({least}) to {high} ({most})")

    return Relation((key, low, high), check)


def check_roll(settings: Settings) -> None:
    """A segment is appended to for at least 1 ms."""
    if settings.int("log.roll.ms") < 1:
        raise refuse(settings, "log.roll.ms", "must be at least 1")


def check_roll_jitter(settings: Settings) -> None:
    """The jitter is not negative."""
    if settings.int("log.roll.jitter.ms") < 0:
        raise refuse(settings, "log.roll.jitter.ms", "must be at least 0")


def check_retention(settings: Settings) -> None:
    """Retention is unlimited or at least 1 ms."""
    if settings.int("log.retention.ms") == 0:
        raise refuse(settings, "log.retention.ms", "must be -1 (unlimited) or at least 1")


def check_heartbeat(settings: Settings) -> None:
    """A broker sends a heartbeat before its session ends. Kafka only logs an error, and the broker stays fenced."""
    session = settings.int("broker.session.timeout.ms")
    if settings.int("broker.heartbeat.interval.ms") >= session:
        reason = f"must be less than broker.session.timeout.ms ({session})"
        raise refuse(settings, "broker.heartbeat.interval.ms", reason)


def check_authentication_delay(settings: Settings) -> None:
    """A failed authentication is answered before its connection counts as idle."""
    key = "connection.failed.authentication.delay.ms"
    idle = settings.int("connections.max.idle.ms")
    if 0 <= idle <= settings.int(key):
        raise refuse(settings, key, f"must be less than connections.max.idle.ms ({idle})")


def check_request_bytes(settings: Settings) -> None:
    """One request of the largest size fits into the queue."""
    queued, request = settings.int("queued.max.request.bytes"), settings.int("socket.request.max.bytes")
    if 0 < queued < request:
        raise refuse(settings, "queued.max.request.bytes", f"must be at least socket.request.max.bytes ({request})")


def check_connections_per_ip(settings: Settings) -> None:
    """Some address may connect."""
    if settings.int("max.connections.per.ip") == 0 and not settings.str("max.connections.per.ip.overrides"):
        reason = "may be 0 only with max.connections.per.ip.overrides; otherwise no client can connect"
        raise refuse(settings, "max.connections.per.ip", reason)


def check_cleaner_memory(settings: Settings) -> None:
    """Every cleaner has more than 1 MiB for its map of keys."""
    threads, size = settings.int("log.cleaner.threads"), settings.int("log.cleaner.dedupe.buffer.size")
    if threads == 0:
        raise refuse(settings, "log.cleaner.threads", "must be at least 1")
    if size // threads <= DEDUPE_BYTES_MIN_PER_THREAD:
        reason = f"must be above 1 MiB for each of {threads} cleaner threads (log.cleaner.threads)"
        raise refuse(settings, "log.cleaner.dedupe.buffer.size", reason)


def check_cordoned(settings: Settings) -> None:
    """Cordoned log directories are log directories of this node, or `*` alone (KIP-1066)."""
    cordoned, own = settings.list("cordoned.log.dirs"), settings.list("log.dirs")
    if EVERY_LOG_DIR in cordoned:
        if len(cordoned) > 1:
            raise refuse(settings, "cordoned.log.dirs", f"with {EVERY_LOG_DIR} it must not contain other values")
    elif unknown := [each for each in cordoned if each not in own]:
        reason = f"{', '.join(unknown)} must be in log.dirs or log.dir, which has {', '.join(own)}"
        raise refuse(settings, "cordoned.log.dirs", reason)


def check_group_session(settings: Settings) -> None:
    """Some session timeout is allowed to members of classic groups. Kafka starts, and refuses every member."""
    least = settings.int("group.min.session.timeout.ms")
    if settings.int("group.max.session.timeout.ms") < least:
        reason = f"must be at least group.min.session.timeout.ms ({least})"
        raise refuse(settings, "group.max.session.timeout.ms", reason)


def session_above_heartbeat(kind: str) -> Relation:
    """Return the rule that members of one kind of group send a heartbeat before their session ends."""
    heartbeat, session = f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms"

    def check(settings: Settings) -> None:
        if settings.int(heartbeat) >= settings.int(session):
            raise refuse(settings, heartbeat, f"must be less than {session} ({settings.int(session)})")

    return Relation((heartbeat, session), check)


def of_groups(kind: str) -> tuple[Relation, ...]:
    """Return the rules for the times of one kind of group (Kafka's GroupCoordinatorConfig)."""
    names = ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
    bounds = [within(f"group.{kind}.{name}", f"group.{kind}.min.{name}", f"group.{kind}.max.{name}") for name in names]
    return (*bounds, session_above_heartbeat(kind))


RELATIONS: Final = (
    Relation(("log.roll.ms", "log.roll.hours"), check_roll),
    Relation(("log.roll.jitter.ms", "log.roll.jitter.hours"), check_roll_jitter),
    Relation(("log.retention.ms", "log.retention.minutes", "log.retention.hours"), check_retention),
    at_most("replica.fetch.wait.max.ms", "replica.socket.timeout.ms", "; otherwise fetches time out"),
    at_most("replica.fetch.wait.max.ms", "replica.lag.time.max.ms", "; otherwise the ISR shrinks without a reason"),
    at_most(
        "log.cleaner.min.compaction.lag.ms",
        "log.cleaner.max.compaction.lag.ms",
        "; otherwise no record can be compacted",
    ),
    Relation(("broker.heartbeat.interval.ms", "broker.session.timeout.ms"), check_heartbeat),
    Relation(
        ("connection.failed.authentication.delay.ms", "connections.max.idle.ms"),
        check_authentication_delay,
    ),
    Relation(("queued.max.request.bytes", "socket.request.max.bytes"), check_request_bytes),
    Relation(("max.connections.per.ip", "max.connections.per.ip.overrides"), check_connections_per_ip),
    Relation(("log.cleaner.threads", "log.cleaner.dedupe.buffer.size"), check_cleaner_memory),
    Relation(("cordoned.log.dirs", "log.dirs", "log.dir"), check_cordoned),
    Relation(("group.max.session.timeout.ms", "group.min.session.timeout.ms"), check_group_session),
    *of_groups("consumer"),
    *of_groups("share"),
    *of_groups("streams"),
    at_most("group.share.max.size", "group.share.max.share.sessions"),
    within(
        "group.share.delivery.count.limit",
        "group.share.min.delivery.count.limit",
        "group.share.max.delivery.count.limit",
    ),
    within(
        "group.share.record.lock.duration.ms",
        "group.share.min.record.lock.duration.ms",
        "group.share.max.record.lock.duration.ms",
    ),
    within(
        "group.share.partition.max.record.locks",
        "group.share.min.partition.max.record.locks",
        "group.share.max.partition.max.record.locks",
    ),
    at_most("group.streams.num.standby.replicas", "group.streams.max.standby.replicas"),
)
