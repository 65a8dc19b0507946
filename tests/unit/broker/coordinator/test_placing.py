"""Which partition a group lives on: what Java's String.hashCode makes of its name."""

import pytest

from kvorum.broker.coordinator.runtime.placing import KEPT_CHARS_MAX, java_hash, partition_for


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("group", 98629247),
        ("console-consumer-12345", 158455506),
        ("\u00fcber", 7604755),
        ("\u65e5\u672c", 835047),
        ("\U0001f600", 1772899),
        ("polygenelubricants", -(2**31)),
    ],
)
def test_it_is_javas(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def test_the_one_number_without_a_positive_is_zero() -> None:
    assert partition_for("polygenelubricants", 50) == 0


@pytest.mark.parametrize("length", [1, KEPT_CHARS_MAX, KEPT_CHARS_MAX + 1])
def test_a_key_is_found_again_at_its_coordinator(length: int) -> None:
    key = "k" * length
    assert {partition_for(key, 50) for _ in range(3)} == {abs(java_hash(key)) % 50}
    assert partition_for(key, 7) == abs(java_hash(key)) % 7, "the count is not remembered with it"
