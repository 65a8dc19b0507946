"""Measurement of quotas: a rate over time windows, and a token bucket. Sans-IO: time is passed in.

Source: Kafka's Rate and SampledStat, QuotaUtils.throttleTime, TokenBucket (KIP-13, KIP-599).
"""

from math import floor
from typing import Final, NamedTuple

from kvorum.runtime.config import Settings

THROTTLE_MS_MAX: Final = 2**31 - 1
"""Maximum of a response field."""


class Windows(NamedTuple):
    """Measurement of a rate: number and length of samples (quota.window.num, quota.window.size.seconds)."""

    samples: int = 11
    size_ms: int = 1_000

    @classmethod
    def of(cls, settings: Settings, prefix: str = "") -> "Windows":
        """Return those of clients' quotas, or with the prefix `controller.` of changes of metadata."""
        seconds = settings.int(f"{prefix}quota.window.size.seconds")
        return cls(settings.int(f"{prefix}quota.window.num"), seconds * 1000)

    @property
    def burst_s(self) -> float:
        """Seconds of its rate that a token bucket holds."""
        return self.samples * self.size_ms / 1000


class Sample:
    """Count in one window."""

    __slots__ = ("last_event_ms", "start_ms", "value")

    def __init__(self, now_ms: float) -> None:
        """Start a measurement."""
        self.begin(now_ms)

    def begin(self, now_ms: float) -> None:
        """Reset the sample."""
        self.start_ms = self.last_event_ms = now_ms
        self.value = 0.0


class Rate:
    """Rate per second, over the existing windows.

    A sample starts with its first value, and one more is kept than configured: the oldest may have started before the
    measured time and extend into it.
    """

    __slots__ = ("_current", "_samples", "_windows")

    def __init__(self, windows: Windows, now_ms: float) -> None:
        """Start with nothing counted."""
        self._windows = windows
        self._current = 0
        self._samples = [Sample(now_ms)]

    @property
    def last_event_ms(self) -> float:
        """Time of the last count."""
        return max(sample.last_event_ms for sample in self._samples)

    def record(self, value: float, now_ms: float) -> None:
        """Count; a negative value reverts a count."""
        sample = self._samples[self._current]
        if now_ms - sample.start_ms >= self._windows.size_ms:
            sample = self._advance(now_ms)
        sample.value += value
        sample.last_event_ms = now_ms

    def _advance(self, now_ms: float) -> Sample:
        samples = self._samples
        self._current = (self._current + 1) % (self._windows.samples + 1)
        if self._current == len(samples):
            samples.append(Sample(now_ms))
        else:
            samples[self._current].begin(now_ms)
        return samples[self._current]

    def measure(self, now_ms: float) -> float:
        """Return the rate per second."""
        window_ms = self.window_ms(now_ms)
        return sum(sample.value for sample in self._samples) / window_ms * 1000

    def window_ms(self, now_ms: float) -> float:
        """Return the measured time: as if all windows except the last were complete, however young the rate is."""
        count, size_ms = self._windows
        for sample in self._samples:
            if now_ms - sample.last_event_ms >= count * size_ms:
                sample.begin(now_ms)
        elapsed_ms = now_ms - min(sample.start_ms for sample in self._samples)
        missing = count - 1 - int(elapsed_ms // size_ms)
        return max(elapsed_ms + max(missing, 0) * size_ms, 1.0)

    def throttle_ms(self, bound: float, now_ms: float) -> int:
        """Return how long nothing may be counted until the rate is at its bound again; 0 if it does not pass it."""
        value = self.measure(now_ms)
        if value <= bound:
            return 0
        return rounded((value - bound) / bound * self.window_ms(now_ms))


class TokenBucket:
    """Tokens per second, saved up for the length of the windows. It is exhausted below zero."""

    __slots__ = ("_last_ms", "_tokens", "_windows")

    def __init__(self, windows: Windows, rate: float, now_ms: float) -> None:
        """Start full."""
        self._windows = windows
        self._tokens = rate * windows.burst_s
        self._last_ms = now_ms

    @property
    def last_event_ms(self) -> float:
        """Time of the last check."""
        return self._last_ms

    def tokens(self, rate: float, now_ms: float) -> float:
        """Return how many there are, below zero if more were taken than there were."""
        self._tokens = min(rate * self._windows.burst_s, self._tokens + rate * (now_ms - self._last_ms) / 1000)
        self._last_ms = now_ms
        return self._tokens

    def take(self, count: float, rate: float, now_ms: float) -> None:
        """Take tokens, whether they are there or not."""
        self._tokens = self.tokens(rate, now_ms) - count

    def throttle_ms(self, rate: float, now_ms: float) -> int:
        """Return how long it takes until there are zero again; 0 if there are."""
        return max(0, rounded(-self.tokens(rate, now_ms) / rate * 1000))


def rounded(time_ms: float) -> int:
    """Return whole milliseconds as Kafka rounds them, at most the maximum of a response field."""
    return floor(min(time_ms + 0.5, THROTTLE_MS_MAX))  # the least of quotas makes an endless time
