"""The broker's settings for its log cleaners (Kafka's CleanerConfig)."""

from dataclasses import dataclass
from typing import Final

from kvorum.runtime.config import Settings

LOAD_FACTOR_MIN: Final = 0.01
LOAD_FACTOR_MAX: Final = 1.0
IO_BUFFER_BYTES_MAX: Final = 64 << 20
"""For reading and for writing, of one cleaner. Larger values, which Kafka permits, count as these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerConfig:
    """The broker's settings for it; sizes in bytes of all cleaners together."""

    threads: int
    dedupe_buffer_size: int
    load_factor: float
    io_buffer_size: int
    bytes_per_second_max: float
    backoff_ms: int

    @staticmethod
    def of(settings: Settings) -> "CleanerConfig":
        """Return those in force."""
        return CleanerConfig(
            threads=settings.int("log.cleaner.threads"),
            dedupe_buffer_size=settings.int("log.cleaner.dedupe.buffer.size"),
            load_factor=min(max(settings.float("log.cleaner.io.buffer.load.factor"), LOAD_FACTOR_MIN), LOAD_FACTOR_MAX),
            io_buffer_size=settings.int("log.cleaner.io.buffer.size"),
            bytes_per_second_max=settings.float("log.cleaner.io.max.bytes.per.second"),
            backoff_ms=settings.int("log.cleaner.backoff.ms"),
        )
