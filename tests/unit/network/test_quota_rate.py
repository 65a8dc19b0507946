"""Rates over windows and token buckets: the figures of Apache Kafka's own tests, and what time does to both."""

import pytest

from kvorum.network.quota_rate import THROTTLE_MS_MAX, Rate, TokenBucket, Windows

WINDOWS = Windows(11, 1_000)


def test_a_spike_is_held_back_until_the_rate_over_all_windows_is_the_quota_again() -> None:
    """ClientQuotaManagerTest: 400 bytes a second for ten seconds, then 2300 half a second into the next window."""
    rate, now_ms = Rate(WINDOWS, 0), 0.0
    for _ in range(10):
        rate.record(400, now_ms)
        assert rate.throttle_ms(500, now_ms) == 0
        now_ms += 1_000
    now_ms += 500
    rate.record(2300, now_ms)
    assert rate.measure(now_ms) == pytest.approx(600)
    assert rate.throttle_ms(500, now_ms) == 2100
    now_ms += 2100
    for _ in range(10):
        rate.record(400, now_ms)
        now_ms += 1_000
    rate.record(0, now_ms)
    assert rate.throttle_ms(500, now_ms) == 0, "the spike's sample is gone"


def test_a_young_rate_counts_as_if_its_windows_were_whole() -> None:
    rate = Rate(WINDOWS, 0)
    rate.record(1_000, 0)
    assert rate.measure(0) == pytest.approx(100)
    assert rate.window_ms(0) == 10_000
    assert rate.window_ms(400) == 10_400


def test_with_a_single_window_no_time_at_all_is_a_millisecond() -> None:
    rate = Rate(Windows(1, 1_000), 50)
    rate.record(1, 50)
    assert rate.measure(50) == pytest.approx(1_000)


def test_old_counts_expire_and_reverted_ones_do_not_count() -> None:
    rate = Rate(WINDOWS, 0)
    rate.record(700, 0)
    assert rate.measure(10_999) > 0
    assert rate.measure(11_000) == 0
    rate.record(300, 11_000)
    rate.record(-300, 11_000)
    assert rate.measure(11_000) == 0
    assert rate.last_event_ms == 11_000


def test_no_more_samples_are_kept_than_windows_and_one() -> None:
    rate = Rate(Windows(3, 100), 0)
    for now_ms in range(0, 9_901, 50):
        rate.record(1, now_ms)
    assert rate.measure(9_900) == pytest.approx(7 / 0.3), "the oldest began before the windows and reaches into them"


def test_a_throttle_time_fits_its_field() -> None:
    rate = Rate(WINDOWS, 0)
    rate.record(1e15, 0)
    assert rate.throttle_ms(1, 0) == THROTTLE_MS_MAX
    smallest = 5e-324  # a quota may be any number above zero
    assert rate.throttle_ms(smallest, 0) == THROTTLE_MS_MAX
    bucket = TokenBucket(WINDOWS, smallest, 0)
    bucket.take(1, smallest, 0)
    assert bucket.throttle_ms(smallest, 0) == THROTTLE_MS_MAX


def test_a_bucket_waits_for_zero_and_not_for_a_window_to_go() -> None:
    """TokenBucket's own example: five a second, a hundred windows of a second, a burst of 560."""
    bucket = TokenBucket(Windows(100, 1_000), 5, 0)
    assert bucket.tokens(5, 0) == 500
    bucket.take(560, 5, 0)
    assert bucket.tokens(5, 0) == -60
    assert bucket.throttle_ms(5, 0) == 12_000
    assert bucket.throttle_ms(5, 11_999) == 1
    assert bucket.throttle_ms(5, 12_000) == 0


def test_a_bucket_saves_up_no_more_than_its_windows() -> None:
    bucket = TokenBucket(Windows(10, 1_000), 2, 0)
    bucket.take(20, 2, 0)
    assert bucket.tokens(2, 5_000) == 10
    assert bucket.tokens(2, 1_000_000) == 20
    assert bucket.tokens(1, 1_000_000) == 10, "a smaller quota holds less"
