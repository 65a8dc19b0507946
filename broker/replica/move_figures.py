"""Metrics of replicas that move between log directories (Kafka's ReplicaAlterLogDirsManager).

Its MinFetchRate is not exposed: there are no threads of which one could be the slowest.
"""

from collections.abc import Callable
from typing import Final

from kvorum.broker.replica.log_dir_moves import LogDirMoves
from kvorum.runtime import metric_names as names
from kvorum.runtime.metrics import Metrics

CLIENT_ID: Final = "ReplicaAlterLogDirs"
"""The label's one value, as in Kafka."""


def follow_moves(metrics: Metrics, moves: LogDirMoves) -> None:
    """Register the gauges, which call these at each scrape."""
    numbers: dict[str, Callable[[], float]] = {
        names.MOVES_MAX_LAG: lambda: moves.max_lag,
        names.MOVES_FAILED_PARTITIONS: lambda: moves.failed_count,
        names.MOVES_DEAD_THREADS: lambda: 0,  # a task that ends with a fault of ours ends the broker (tasks.spawn)
    }
    for name, read in numbers.items():
        metrics.gauge(name).labels(CLIENT_ID).follow(read)
