"""The dashboards' Prometheus expressions, made from metric names and selectors.

A target is an expression and the legend of its curves. Sums over a cluster are correct because only one process exports
each value: a partition's leader, a group's coordinator, the active controller for the number of brokers
(docs/monitoring.md).
"""

from typing import Final, TypeAlias

Target: TypeAlias = tuple[str, str]

CLUSTER: Final = 'cluster=~"$cluster"'
PROCESS: Final = f'{CLUSTER},instance=~"$instance"'
TOPIC: Final = f'{CLUSTER},topic=~"$topic"'
GROUP: Final = f'{CLUSTER},consumergroup=~"$consumergroup"'
GROUP_ON_TOPIC: Final = f'{GROUP},topic=~"$topic"'
"""Selectors of the variables at the top of a dashboard."""
ALL_TOPICS: Final = ',topic=""'
EACH_TOPIC: Final = ',topic!=""'
ERRORS: Final = ',error!="NONE"'
"""To be added to one of them. A broker has a row for each topic, and one without a topic for all of them."""
LATE: Final = ',quantile="0.99"'
"""The same for metrics with quantiles."""
OF_APIS: Final = ',request!~"FetchConsumer|FetchFollower"'
"""The same for requests: these are distinguished and, under Fetch, combined."""
RATE: Final = "[$__rate_interval]"


def series(name: str, where: str) -> str:
    """Return a metric as it is."""
    return f"{name}{{{where}}}"


def rate(name: str, where: str) -> str:
    """Return a counter's increase per second."""
    return f"rate({series(name, where)}{RATE})"


def increase(name: str, where: str) -> str:
    """Return a counter's increase between two points of a curve."""
    return f"increase({series(name, where)}{RATE})"


def total(expression: str) -> str:
    """Return the sum of all rows."""
    return f"sum({expression})"


def highest(expression: str) -> str:
    """Return the greatest of all rows."""
    return f"max({expression})"


def by(labels: str, expression: str, prefix: str = "") -> Target:
    """Return a sum for each value of some labels, "a, b": its legend is the prefix and the values."""
    return f"sum by ({labels}) ({expression})", prefix + " ".join(f"{{{{{each}}}}}" for each in labels.split(", "))


def of_each(expression: str, prefix: str = "") -> Target:
    """Return one row a process as it is: its legend is the prefix and the process."""
    return expression, f"{prefix}{{{{instance}}}}"


def quantile(share: str, name: str, labels: str, where: str) -> str:
    """Return a quantile of a histogram, of each value of some labels."""
    return f"histogram_quantile({share}, sum by (le, {labels}) ({rate(f'{name}_bucket', where)}))"
