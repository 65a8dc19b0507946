"""Average and maximum of the last minute."""

import pytest

from kvorum.runtime.recent_values import RecentValues


@pytest.mark.parametrize(
    ("now_s", "average", "maximum"),
    [(0.0, 3.0, 5.0), (40.0, 5.0, 9.0), (59.9, 5.0, 9.0), (60.0, 9.0, 9.0), (99.9, 9.0, 9.0), (100.0, None, None)],
)
def test_values_of_two_windows_count(now_s: float, average: float | None, maximum: float | None) -> None:
    values = RecentValues()
    for value, at_s in ((1.0, 0.0), (5.0, 0.0), (9.0, 40.0)):
        if at_s <= now_s:
            values.add(value, at_s)
    assert (values.average(now_s), values.maximum(now_s)) == (average, maximum)


def test_only_the_newest_windows_are_kept() -> None:
    values = RecentValues()
    for number in range(10_000):
        values.add(float(number), number / 100)
    # Windows begin at 0, 30, 60 and 90 s, and two are kept.
    assert (values.average(100.0), values.maximum(100.0)) == (7_999.5, 9_999.0)
