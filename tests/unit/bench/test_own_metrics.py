"""How late Kvorum's event loops were between two looks at /metrics, from what a process really writes there."""

import pytest

from bench.own_metrics import Lag, Seen, lag_between, lag_text, lags_between, seen_in, value_in
from kvorum.cluster.metrics.process_metrics import LAG_BOUNDS
from kvorum.runtime import metric_names as names
from kvorum.runtime.metrics import Metrics

FRESH, LATER = 100.0, 200.0


def seen(lags_ms: list[float], greatest_ms: float | None = None, began: float = FRESH) -> Seen:
    """Return what a process tells whose timer was late so."""
    metrics = Metrics()
    histogram = metrics.histogram(names.EVENT_LOOP_LAG, bounds=LAG_BOUNDS).labels()
    for lag_ms in lags_ms:
        histogram.observe(lag_ms / 1000)
    most_ms = max(lags_ms, default=0.0) if greatest_ms is None else greatest_ms
    metrics.gauge(names.EVENT_LOOP_LAG_MAX).labels().set(most_ms / 1000)
    found = seen_in(metrics.render().decode())
    assert found is not None and len(found.buckets) == len(LAG_BOUNDS) + 1
    return Seen(began, found.buckets, found.greatest)


def test_an_unknown_page_of_a_process_is_an_error() -> None:
    assert seen_in("") is None and value_in("", "name") is None
    assert value_in('other 1.0\nname{a="b"} 2.5\n', "name") == 2.5


def test_only_callbacks_due_between_two_reads_count() -> None:
    before, after = seen([700.0] * 100), seen([700.0] * 100 + [0.0] * 98 + [25.0] * 2)
    lag = lag_between(before, after)
    assert lag is not None
    assert 20 < lag.p99_ms <= 30, "between the bounds around 25"
    assert lag.greatest_ms == 30, "what was greatest in the last minute was before"
    assert lag_between(after, after) is None


def test_the_greatest_is_exact_where_it_is_the_greatest_of_the_last_minute() -> None:
    lag = lag_between(seen([]), seen([0.0] * 999 + [431.0]))
    assert lag is not None and lag.greatest_ms == pytest.approx(431) and lag.p99_ms <= 1
    endless = lag_between(None, seen([90_000.0]))
    assert endless == Lag(30_000, 90_000)


def test_a_process_that_was_started_meanwhile_counts_from_its_start() -> None:
    lags = lags_between({"a": seen([5.0] * 10), "gone": seen([1.0])}, {"a": seen([50.0] * 5, began=LATER)})
    assert lags.keys() == {"a"} and lags["a"].greatest_ms == pytest.approx(50)


def test_the_worst_process_is_reported_except_apache_kafkas() -> None:
    assert Lag.worst([Lag(1, 50), Lag(2, 20)]) == Lag(2, 50)
    assert lag_text(Lag.worst([])) == ""
    assert lag_text(Lag(2, 50)) == "; event-loop lag p99 2.0 ms, at most 50 ms"
