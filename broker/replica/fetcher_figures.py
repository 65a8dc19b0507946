"""Metrics of followers (Kafka's ReplicaFetcherManager and FetcherLagMetrics), read at each scrape.

A lag is the high watermark in the leader's last answer minus the local log end: it costs the fetches nothing, and keeps
its value while a partition rests in its fetch session or its leader is unreachable. MinFetchRate is not exposed: it
would need a count per fetch, and with long polls it is lowest where there is nothing to fetch.
"""

from collections.abc import Callable, Iterator
from typing import Final

from kvorum.broker.replica.fetcher_manager import FetcherManager
from kvorum.runtime import metric_names as names
from kvorum.runtime.metrics import Metrics

CLIENT_ID: Final = "Replica"
"""As Kafka calls the manager."""
FETCHER_ID: Final = "ReplicaFetcherThread-0-"
"""Followed by the leader's id; Kafka's name of the first thread for a leader."""

Row = tuple[tuple[object, ...], float]


def follow_fetchers(metrics: Metrics, fetchers: FetcherManager) -> None:
    """Register the gauges, which call these at each scrape. O(partitions followed)."""
    numbers: dict[str, Callable[[], float]] = {
        names.FOLLOWERS_MAX_LAG: lambda: max((each.lag or 0 for each in fetchers.followers()), default=0),
        names.FOLLOWERS_FAILED_PARTITIONS: lambda: sum(each.has_failed for each in fetchers.followers()),
        names.FOLLOWERS_DEAD_THREADS: lambda: 0,  # a task that ends with a fault of ours ends the broker (tasks.spawn)
    }
    for name, read in numbers.items():
        metrics.gauge(name).labels(CLIENT_ID).follow(read)
    metrics.gauge(names.FOLLOWER_LAG).sample(lambda: _lags(fetchers))


def _lags(fetchers: FetcherManager) -> Iterator[Row]:
    """Iterate over the followed partitions; one that is no longer followed is skipped."""
    for follower in tuple(fetchers.followers()):
        lag = follower.lag
        if lag is not None:
            yield (f"{FETCHER_ID}{follower.leader_id}", *follower.partition.topic_partition), lag
