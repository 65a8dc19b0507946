"""Quantiles are near the true ones, of the last minutes, and cost little."""

import random

import pytest

from kvorum.runtime.quantiles import QUANTILES, WINDOW_MS, WINDOWS, Quantiles, bucket_of, middle_of

NEAR = 0.046
"""A bucket is 9 % wide."""


@pytest.mark.parametrize("spread", [0.1, 1.0, 3.0])
def test_they_are_near_the_true_ones(spread: float) -> None:
    chance, quantiles = random.Random(7), Quantiles()
    values = sorted(chance.lognormvariate(0, spread) for _ in range(10_000))
    for value in values:
        quantiles.add(value, 0)
    reported = quantiles.collect(0)
    assert list(reported) == list(QUANTILES) == ["0.50", "0.75", "0.95", "0.98", "0.99", "0.999"]
    for label, share in QUANTILES.items():
        assert reported[label] == pytest.approx(values[int(share * len(values)) - 1], rel=NEAR), label
    assert quantiles.count == 10_000


def test_every_value_is_in_its_bucket() -> None:
    for exponent in range(-15, 40):
        value = 1.37 * 2.0**exponent
        assert middle_of(bucket_of(value)) == pytest.approx(value, rel=NEAR)


def test_nothing_is_nothing_and_stays_below_all_else() -> None:
    quantiles = Quantiles()
    for value in (0.0, 0.0, 0.0, 5.0):
        quantiles.add(value, 0)
    assert quantiles.collect(0)["0.50"] == quantiles.collect(0)["0.75"] == 0.0
    assert quantiles.collect(0)["0.95"] == pytest.approx(5.0, rel=NEAR)


def test_a_value_with_a_count_has_that_weight() -> None:
    quantiles = Quantiles()
    quantiles.add(1.0, 0, 9)
    quantiles.add(100.0, 0)
    assert quantiles.count == 10
    assert quantiles.collect(0)["0.75"] == pytest.approx(1.0, rel=NEAR)
    assert quantiles.collect(0)["0.95"] == pytest.approx(100.0, rel=NEAR)


def test_old_values_leave_the_quantiles_and_stay_in_the_count() -> None:
    quantiles = Quantiles()
    assert quantiles.collect(0) == {}
    quantiles.add(1.0, 0)
    quantiles.add(10.0, WINDOW_MS)
    assert quantiles.collect(WINDOW_MS)["0.50"] == pytest.approx(1.0, rel=NEAR)
    assert quantiles.collect((WINDOWS - 1) * WINDOW_MS)["0.50"] == pytest.approx(1.0, rel=NEAR)
    assert quantiles.collect(WINDOWS * WINDOW_MS)["0.50"] == pytest.approx(10.0, rel=NEAR)
    assert quantiles.collect((WINDOWS + 1) * WINDOW_MS) == {}
    assert quantiles.count == 2
    for minute in range(20):
        quantiles.add(3.0, minute * WINDOW_MS)
    assert len(quantiles._windows) == WINDOWS


def test_several_are_reported_together() -> None:
    few, many = Quantiles(), Quantiles()
    few.add(100.0, 0)
    many.add(1.0, 0, 99)
    assert Quantiles.merged([few, many], 0)["0.99"] == pytest.approx(1.0, rel=NEAR)
    assert Quantiles.merged([few, many], 0)["0.999"] == pytest.approx(100.0, rel=NEAR)
    assert Quantiles.merged([], 0) == {}
