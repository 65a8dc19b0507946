"""OpenTelemetry's MetricsData: what clients send is read, what is cut or scrambled is refused, and never costs much."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvorum.broker.telemetry.otlp import ATTRIBUTES_MAX, TEXT_CHARS_MAX, Malformed, Point, points_of

DELTA, CUMULATIVE = 1, 2


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def message(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def fixed64(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 1) + content


def integer(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value & (1 << 64) - 1)


def attribute(key: str, value: bytes) -> bytes:
    return message(7, message(1, key.encode()) + message(2, value))


def point(value: float | int, *attributes: bytes) -> bytes:
    start, now = fixed64(2, bytes(8)), fixed64(3, struct.pack("<q", 10**18))
    number = fixed64(6, struct.pack("<q", value)) if isinstance(value, int) else fixed64(4, struct.pack("<d", value))
    return message(1, b"".join(attributes) + start + now + number)


def gauge(name: str, *points: bytes) -> bytes:
    return message(2, message(1, name.encode()) + message(2, b"what it is") + message(5, b"".join(points)))


def counted(name: str, temporality: int, *points: bytes) -> bytes:
    content = b"".join(points) + integer(2, temporality) + integer(3, 1)
    return message(2, message(1, name.encode()) + message(7, content))


def metrics_data(*metrics: bytes) -> bytes:
    scope = message(1, message(1, b"org.apache.kafka"))
    resource = message(1, message(1, attribute("client_rack", message(1, b"r"))))
    return message(1, resource + message(2, scope + b"".join(metrics)))


TEXT = message(1, b"orders")


def test_gauges_and_sums_are_read_with_their_attributes() -> None:
    data = metrics_data(
        gauge("producer.buffer", point(2.5, attribute("topic", TEXT), attribute("partition", integer(3, -3)))),
        counted("producer.sent", DELTA, point(7), point(-8, attribute("ok", integer(2, 1)))),
        counted("producer.total", CUMULATIVE, point(1.0, attribute("rate", fixed64(4, struct.pack("<d", 0.5))))),
    )
    assert points_of(data, 100) == (
        [
            Point("producer.buffer", (("partition", "-3"), ("topic", "orders")), 2.5, False),
            Point("producer.sent", (), 7.0, True),
            Point("producer.sent", (("ok", "true"),), -8.0, True),
            Point("producer.total", (("rate", "0.5"),), 1.0, False),
        ],
        False,
    )


def test_only_numbers_of_gauges_and_sums_are_read() -> None:
    histogram = message(2, message(1, b"latency") + message(9, message(1, fixed64(4, bytes(8)))))
    unknown = varint(99 << 3 | 5) + b"1234" + integer(98, 5) + fixed64(97, bytes(8))
    assert points_of(metrics_data(histogram, gauge("a", point(1)), gauge("b")) + unknown, 100) == (
        *([Point("a", (), 1.0, False)], False),
    )
    assert points_of(b"", 100) == ([], False)


def test_points_names_and_attributes_have_a_limit() -> None:
    many = [attribute(f"key-{number:02d}", TEXT) for number in range(ATTRIBUTES_MAX + 5)]
    data = metrics_data(gauge("ä" * 1_000, point(1, *many), point(2), point(3)))
    points, are_more = points_of(data, 2)
    assert are_more and [each.value for each in points] == [1, 2]
    assert points[0].name == "ä" * TEXT_CHARS_MAX
    assert len(points[0].attributes) == ATTRIBUTES_MAX
    assert points_of(data, 3)[1] is False


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a",
        b"\x0a\x05abc",
        b"\x80" * 11,
        b"\x0b",  # a group, which protobuf no longer has
        integer(1, 5),  # a number where ResourceMetrics is
        metrics_data(message(2, integer(1, 5))),
        metrics_data(message(2, message(5, message(1, message(4, b"1"))))),
    ],
)
def test_invalid_metrics_data_is_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        points_of(data, 100)


@given(st.binary(max_size=200))
def test_all_input_is_read_or_refused(data: bytes) -> None:
    try:
        points_of(data, 10)
    except Malformed:
        return


@given(st.integers(0, 10_000))
def test_a_cut_message_is_read_or_refused(cut: int) -> None:
    whole = metrics_data(gauge("a", point(2.5, attribute("topic", TEXT))), counted("b", DELTA, point(7)))
    try:
        points, _ = points_of(whole[: cut % len(whole)], 10)
    except Malformed:
        return
    assert points in ([], points_of(whole, 10)[0])
