"""Rules for a change of a running broker's configuration, by the configs before and after it.

Sans-IO. Kafka's DynamicBrokerConfig and its reconfigurables: thread pools, listeners, connection limits, classes that
cannot be loaded, local retention. A node's start does not apply them.
"""

from collections.abc import Collection
from typing import Final

from kvorum.runtime import config_checks
from kvorum.runtime.config import Settings
from kvorum.runtime.config_defs import broker_def
from kvorum.runtime.config_relations import RELATIONS, refuse
from kvorum.runtime.listeners import listeners

THREAD_POOLS: Final = frozenset(
    (
        "background.threads",
        "log.cleaner.threads",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
        "remote.log.manager.copier.thread.pool.size",
        "remote.log.manager.expiration.thread.pool.size",
        "remote.log.manager.follower.thread.pool.size",
        "remote.log.reader.threads",
    )
)
THREAD_POOLS_OF_LISTENERS: Final = frozenset(("num.network.threads",))
POSITIVE: Final = frozenset(
    (
        "max.connections",
        "max.connection.creation.rate",
        "remote.log.index.file.cache.total.size.bytes",
        "remote.log.manager.copy.max.bytes.per.second",
        "remote.log.manager.fetch.max.bytes.per.second",
    )
)
"""Limits that may be 0 in a node's file, where it stops everything, but not be changed to 0."""
LISTENER_KEYS: Final = frozenset(("advertised.listeners", "listener.security.protocol.map", "listeners"))
UNLIMITED: Final = -1
AS_TOTAL: Final = -2
"""Of local retention: the same as that of the whole log."""


def check_change(before: Settings, after: Settings, changed: Collection[str]) -> None:
    """Check a change of a running broker, from `before` to `after`; `changed` are the keys it names.

    Raises ConfigError for the key that cannot have its new value.
    """
    for relation in RELATIONS:
        relation.check(after)
    for key in sorted(changed):
        definition = broker_def(key)
        base = key if definition is None else definition.name
        if base in (THREAD_POOLS if key == base else THREAD_POOLS_OF_LISTENERS):
            check_thread_pool(after, key, number_of(before, key, base), number_of(after, key, base))
        elif base in POSITIVE and number_of(after, key, base) < min(1, number_of(before, key, base)):
            raise refuse(after, key, "must be at least 1")
    if not LISTENER_KEYS.isdisjoint(changed):
        check_listeners(before, after)
    for kind in ("ms", "bytes"):
        check_local_retention(after, kind, changed)


def number_of(settings: Settings, key: str, base: str) -> int:
    """Return the number in force under a key, for `listener.name.NAME.KEY` that of KEY where it is not set."""
    return settings.int(key if key in settings else base)


def check_thread_pool(settings: Settings, key: str, before: int, after: int) -> None:
    """A pool becomes at least half and at most double of its size (Kafka's DynamicThreadPool). Raises ConfigError."""
    if after == before:
        return
    if after < 1:
        raise refuse(settings, key, "must be at least 1")
    if not before // 2 <= after <= before * 2:
        reason = f"must be from {before // 2} to {before * 2}: a running broker changes it by a factor of two at most"
        raise refuse(settings, key, reason)


def check_listeners(before: Settings, after: Settings) -> None:
    """The listeners satisfy what a start requires, and keep their security protocols. Raises ConfigError."""
    config_checks.check_listeners(after)
    if "broker" in after.list("process.roles"):
        config_checks.check_broker_listeners(after)
    protocols = {endpoint.listener_name: endpoint.security_protocol for endpoint in listeners(before)}
    for endpoint in listeners(after):
        name, protocol = endpoint.listener_name, endpoint.security_protocol
        if protocols.get(name, protocol) is not protocol:
            reason = f"listener {name} is in use, so its security protocol cannot change"
            raise refuse(after, "listener.security.protocol.map", reason)


def check_local_retention(settings: Settings, kind: str, changed: Collection[str]) -> None:
    """Local retention is at most that of the whole log (Kafka's DynamicLogConfig). Raises ConfigError."""
    local_key, total_key = f"log.local.retention.{kind}", f"log.retention.{kind}"
    if local_key not in changed and total_key not in changed:
        return
    local, total = settings.int(local_key), settings.int(total_key)
    if total == UNLIMITED or local == AS_TOTAL:
        return
    if local == UNLIMITED or local > total:
        raise refuse(settings, local_key, f"must be at most {total_key} ({total}), or {AS_TOTAL} for the same")
