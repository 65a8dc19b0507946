"""Metrics of the log cleaners, under the names of Kafka's LogCleaner and LogCleanerManager."""

from collections.abc import Callable, Iterator

from kvorum.runtime import metric_names as names
from kvorum.runtime.clock import Clock
from kvorum.runtime.metrics import Metrics
from kvorum.storage.cleaner.manager import LogCleaner
from kvorum.storage.log import Log
from kvorum.storage.log_manager import LogManager

Row = tuple[tuple[object, ...], float]


def follow_cleaner(metrics: Metrics, cleaner: LogCleaner, logs: LogManager, clock: Clock) -> None:
    """Register all of it."""

    def greatest(values: Iterator[float]) -> float:
        return int(max(values, default=0))

    def recopied() -> float:
        stats = [last.stats for last in cleaner.last_runs.values()]
        return 100 * sum(each.bytes_written for each in stats) // max(1, sum(each.bytes_read for each in stats))

    numbers: dict[str, Callable[[], float]] = {
        names.CLEANER_MAX_DIRTY_PERCENT: lambda: int(100 * cleaner.dirtiest_ratio),
        names.CLEANER_TIME_SINCE_LAST_RUN_MS: lambda: clock.wall_ms() - cleaner.last_look_ms,
        names.CLEANER_BUFFER_UTILIZATION: lambda: greatest(
            100 * last.stats.buffer_utilization for last in cleaner.last_runs.values()
        ),
        names.CLEANER_RECOPY_PERCENT: recopied,
        names.CLEANER_MAX_CLEAN_SECONDS: lambda: greatest(last.seconds for last in cleaner.last_runs.values()),
        names.CLEANER_MAX_COMPACTION_DELAY_SECONDS: lambda: greatest(
            last.overdue_ms / 1000 for last in cleaner.last_runs.values()
        ),
        names.CLEANER_DEAD_THREADS: lambda: cleaner.dead_count,
    }
    for name, read in numbers.items():
        metrics.gauge(name).labels().follow(read)

    def by_directory(read: Callable[[Log], float]) -> Iterator[Row]:
        for directory in logs.dirs:
            failed = [each for each in cleaner.uncleanable if logs.dir_of(each.partition) is directory]
            yield (directory.path,), sum(read(each) for each in failed if each.failure is None)

    metrics.gauge(names.CLEANER_UNCLEANABLE_PARTITIONS).sample(lambda: by_directory(lambda _: 1))
    metrics.gauge(names.CLEANER_UNCLEANABLE_BYTES).sample(lambda: by_directory(cleaner.uncleanable_bytes))
