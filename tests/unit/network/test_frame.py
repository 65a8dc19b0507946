"""Frames out of bytes, however the stream is cut."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvorum.network.frame import SCRATCH_BYTES, FrameParser

BODIES = st.lists(st.binary(max_size=70), max_size=12)


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def parser(bytes_max: int = 1000, scratch_bytes: int = 64, reserved_max: int = 16) -> FrameParser:
    return FrameParser(bytes_max, memoryview(bytearray(scratch_bytes)), reserved_max)


@given(BODIES, st.integers(5, 80), st.integers(1, 40), st.randoms(use_true_random=False))
def test_frames_are_complete_for_any_division_of_the_stream(
    bodies: list[bytes], scratch_bytes: int, reserved_max: int, rng: random.Random
) -> None:
    stream = framed(*bodies)
    reader = parser(scratch_bytes=scratch_bytes, reserved_max=reserved_max)
    frames: list[memoryview] = []
    position = 0
    while position < len(stream):
        size = rng.randrange(1, 40)
        frames += reader.feed(stream[position : position + size])
        position += size
    assert [bytes(frame) for frame in frames] == bodies
    assert reader.pending == 0


@given(BODIES, st.randoms(use_true_random=False))
def test_connections_may_share_one_scratch_buffer(bodies: list[bytes], rng: random.Random) -> None:
    """Two parsers are fed by turns; what one left unfinished is not the other's."""
    shared = memoryview(bytearray(32))
    readers = [FrameParser(1000, shared), FrameParser(1000, shared)]
    streams = [framed(*bodies), framed(*reversed(bodies))]
    frames: list[list[memoryview]] = [[], []]
    while streams[0] or streams[1]:
        which = rng.randrange(2)
        size = rng.randrange(1, 20)
        frames[which] += readers[which].feed(streams[which][:size])
        streams[which] = streams[which][size:]
    assert [bytes(frame) for frame in frames[0]] == bodies
    assert [bytes(frame) for frame in frames[1]] == bodies[::-1]


@pytest.mark.parametrize("size", [10, 30, 500])
def test_a_frame_owns_its_bytes_and_may_be_written_to(size: int) -> None:
    reader = parser()
    first, second = reader.feed(framed(bytes(size), bytes(size)))
    first[:] = b"\xff" * size
    assert bytes(second) == bytes(size)
    reader.feed(framed(b"x" * size))
    assert bytes(first) == b"\xff" * size
    assert isinstance(first.obj, bytearray)
    assert len(first.obj) == size


@pytest.mark.parametrize("length", [-1, -(1 << 31), 1001, (1 << 31) - 1])
def test_a_length_that_is_negative_or_above_the_limit_is_refused(length: int) -> None:
    reader = parser()
    frames = reader.feed(framed(b"before") + length.to_bytes(4, "big", signed=True) + b"behind")
    assert [bytes(frame) for frame in frames] == [b"before"]
    assert str(length) in str(reader.error)


def test_a_frame_of_the_largest_size_allowed_is_taken() -> None:
    assert bytes(parser().feed(framed(b"a" * 1000))[0]) == b"a" * 1000


def test_memory_depends_on_received_bytes_not_on_the_announced_size() -> None:
    reader = parser(bytes_max=100_000_000, scratch_bytes=SCRATCH_BYTES, reserved_max=1000)
    reader.feed((100_000_000).to_bytes(4, "big") + b"abc")
    assert reader.pending == 100_000_000
    assert len(reader.writable().obj) <= 1000
    reader.feed(bytes(997))
    assert len(reader.writable().obj) <= 2000
