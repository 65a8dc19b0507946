"""Which state of stream joins an application may continue from."""

from datetime import timedelta

from kvorum.pipelines.streams import JoinWindows
from kvorum.pipelines.streams.operators import bucket_micros, described, difference


def windows(before_ms: int, after_ms: int, grace_ms: int = 0) -> JoinWindows:
    before, after, grace = (timedelta(milliseconds=each) for each in (before_ms, after_ms, grace_ms))
    return JoinWindows(before_by=before, after_by=after, grace=grace)


def test_state_with_the_same_windows_fits() -> None:
    recorded = described({"a": windows(5, 0), "b": windows(1, 2)})
    assert recorded == "[[5, 0], [1, 2]]"
    assert difference(recorded, {"a": windows(5, 0), "b": windows(1, 2)}) is None
    assert difference(recorded, {"renamed": windows(5, 0, grace_ms=9), "b": windows(1, 2)}) is None


def test_state_with_other_windows_or_without_buckets_does_not_fit() -> None:
    assert difference("[[5, 0]]", {"a": windows(4, 0)}) == (
        "its state has joins of [before, after] ms [[5, 0]], a now has [[4, 0]]"
    )
    assert difference("[[5, 0]]", {"a": windows(0, 5)}) is not None, "the buckets are as long, but elsewhere"
    assert difference("[[5, 0], [1, 1]]", {"a": windows(5, 0)}) is not None
    assert difference(None, {"a": windows(5, 0)}) is not None


def test_a_bucket_is_as_long_as_the_window_and_never_empty() -> None:
    assert bucket_micros(windows(5, 2)) == 7000
    assert bucket_micros(windows(30, -10)) == 20_000
    assert bucket_micros(windows(0, 0)) == bucket_micros(windows(-5, 5)) == 1
