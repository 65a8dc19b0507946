"""Rate limits of replicas that are being moved (KIP-73): one quota for a leader's reads, one for a follower's fetches.

Sans-IO; times are monotonic milliseconds.

The rate is the bytes of the last windows divided by the time since the oldest of them began, at least one window. Above
the quota replicas wait; an answer is never cut, so a large one causes a longer pause. Only listed replicas that are not
in sync are throttled: a throttle never removes a replica from an ISR. Source: Kafka's ReplicationQuotaManager,
SimpleRate, SampledStat.
"""

from typing import Final

from kvorum.runtime.config import Settings

ALL_REPLICAS: Final = "*"


class WindowedRate:
    """Bytes per second, over a number of windows (and the one before them)."""

    __slots__ = ("_count", "_current", "_window_ms", "_windows")

    def __init__(self, count: int, window_ms: int) -> None:
        """Start without samples."""
        self._count = count
        self._window_ms = window_ms
        self._windows: list[_Window] = []
        self._current = 0

    def note(self, size: int, now_ms: int) -> None:
        """Count bytes."""
        if not self._windows:
            self._windows.append(_Window(now_ms))
        window = self._windows[self._current]
        if now_ms - window.start_ms >= self._window_ms:
            self._current = (self._current + 1) % (self._count + 1)
            if self._current == len(self._windows):
                self._windows.append(_Window(now_ms))
            else:
                self._windows[self._current].begin(now_ms)
            window = self._windows[self._current]
        window.size += size
        window.last_ms = now_ms

    def measured(self, now_ms: int) -> float:
        """Return the rate; windows without anything noted in the time that is measured are forgotten."""
        if not self._windows:
            return 0.0
        for window in self._windows:
            if now_ms - window.last_ms >= self._count * self._window_ms:
                window.begin(now_ms)
        since_ms = max(now_ms - min(window.start_ms for window in self._windows), self._window_ms)
        return 1000 * sum(window.size for window in self._windows) / since_ms


class _Window:
    __slots__ = ("last_ms", "size", "start_ms")

    def __init__(self, now_ms: int) -> None:
        self.begin(now_ms)

    def begin(self, now_ms: int) -> None:
        """Reset the sample."""
        self.start_ms = self.last_ms = now_ms
        self.size = 0


class ReplicationQuota:
    """Replication quota of a broker for one side. If `throttled` is empty nothing is throttled."""

    __slots__ = ("_broker_id", "_rate", "bound", "throttled")

    def __init__(self, broker_id: int, settings: Settings) -> None:
        """Start without a limit. Windows are replication.quota.window.num and .size.seconds."""
        self._broker_id = broker_id
        self._rate = WindowedRate(
            settings.int("replication.quota.window.num"), 1000 * settings.int("replication.quota.window.size.seconds")
        )
        self.bound: int | None = None
        """Bytes per second; None: unlimited."""
        self.throttled: dict[str, frozenset[int] | None] = {}
        """The partitions by topic; None: all of the topic's."""

    def throttle(self, topic: str, replicas: str) -> None:
        """Set a topic's list: `*`, or PARTITION:BROKER,... of which those of this broker apply; empty: none."""
        text = replicas.strip()
        if not text:
            self.throttled.pop(topic, None)
        elif text == ALL_REPLICAS:
            self.throttled[topic] = None
        else:
            pairs = (pair.strip().split(":") for pair in text.split(",") if pair.strip())
            own = frozenset(int(partition) for partition, broker in pairs if int(broker) == self._broker_id)
            if own:
                self.throttled[topic] = own
            else:
                self.throttled.pop(topic, None)

    def is_throttled(self, topic: str, partition: int) -> bool:
        """Return whether this replica is throttled."""
        partitions = self.throttled.get(topic, ())
        return partitions is None or partition in partitions

    def measured(self, now_ms: int) -> float:
        """Return the recent rate in bytes per second."""
        return self._rate.measured(now_ms)

    def is_exceeded(self, now_ms: int) -> bool:
        """Return whether the recent rate exceeds the limit."""
        return self.bound is not None and self._rate.measured(now_ms) > self.bound

    def note(self, size: int, now_ms: int) -> None:
        """Count bytes of throttled replicas; also above the bound."""
        self._rate.note(size, now_ms)


class ReplicationQuotas:
    """Both sides."""

    __slots__ = ("follower", "leader")

    def __init__(self, broker_id: int, settings: Settings) -> None:
        """Start without limits."""
        self.leader = ReplicationQuota(broker_id, settings)
        self.follower = ReplicationQuota(broker_id, settings)
