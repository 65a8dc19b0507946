"""The ring of last batches: what it returns, what it holds, what it shares."""

import random

import pytest

from kvorum.protocol.batch_header import parse_header
from kvorum.protocol.parts import FileSlice
from kvorum.protocol.records import batches
from kvorum.storage.tail import (
    LARGE_BATCH_BYTES,
    LOG_BATCHES_MAX,
    LOG_BYTES_MAX,
    MEMORY_READ_BYTES_MAX,
    Tail,
    TailBudget,
)
from sim.disk import SimDisk
from tests.unit.storage.kit import batch

FILE = SimDisk(random.Random(1)).open("00000000000000000000.log", create=True)


def add(tail: Tail, offset: int, size: int = 10, position: int | None = None) -> int:
    data = batch(bytes(size), base_offset=offset)
    position = FILE.size() if position is None else position
    FILE.pwrite(data, position)
    tail.append(data, [parse_header(data)], FILE, position)
    return len(data)


def offsets(
    tail: Tail, offset: int, max_bytes: int = 10**9, bound: int = 10**9, min_one: bool = True
) -> list[int] | None:
    parts = tail.read(offset, max_bytes, bound, min_one)
    if parts is None:
        return None
    data = b"".join(
        part.file.pread(part.size, part.position) if isinstance(part, FileSlice) else bytes(part) for part in parts
    )
    return [header.base_offset for _, header in batches(memoryview(data))]


def test_a_read_gets_whole_batches_within_its_limits() -> None:
    tail = Tail(TailBudget())
    size = max(add(tail, offset) for offset in range(5))
    assert offsets(tail, 2) == [2, 3, 4]
    assert offsets(tail, 2, bound=4) == [2, 3]
    assert offsets(tail, 2, max_bytes=2 * size) == [2, 3]
    assert offsets(tail, 2, max_bytes=2 * size - 1) == [2]
    assert offsets(tail, 2, max_bytes=1) == [2]
    assert offsets(tail, 2, max_bytes=1, min_one=False) == []
    assert offsets(tail, 2, bound=2) == []


def test_data_outside_the_buffer_is_read_from_the_file() -> None:
    tail = Tail(TailBudget())
    assert offsets(tail, 0) is None
    add(tail, 7)
    assert offsets(tail, 6) is None
    tail.clear()
    assert offsets(tail, 7) is None


def test_a_ring_is_bounded_by_count_and_bytes() -> None:
    tail = Tail(TailBudget())
    for offset in range(LOG_BATCHES_MAX + 10):
        add(tail, offset)
    assert offsets(tail, 9) is None and offsets(tail, 10) is not None
    for offset in range(1000, 1010):
        add(tail, offset, LOG_BYTES_MAX // 4)
    assert tail.size <= LOG_BYTES_MAX
    assert offsets(tail, 1009) == [1009] and offsets(tail, 1000) is None


def test_an_oversized_batch_empties_the_ring() -> None:
    tail = Tail(TailBudget())
    add(tail, 0)
    add(tail, 1, LOG_BYTES_MAX + 1)
    assert offsets(tail, 0) is None and tail.size == 0


def test_the_oldest_append_of_any_log_goes_first() -> None:
    budget = TailBudget(bytes_max=900)
    idle, busy = Tail(budget), Tail(budget)
    add(idle, 0, 100)
    for offset in range(3):
        add(busy, offset, 200)
    assert idle.size == 0
    assert 0 < busy.size <= 900 and budget.size <= 900
    assert offsets(busy, 2) == [2]


def test_many_small_appends_are_bounded_too() -> None:
    budget = TailBudget(appends_max=10)
    tails = [Tail(budget) for _ in range(20)]
    for tail in tails:
        add(tail, 0)
    assert [tail.size > 0 for tail in tails] == [False] * 10 + [True] * 10


def test_the_copy_is_its_own() -> None:
    """The caller's buffer is the network's: it may be reused at once."""
    tail = Tail(TailBudget())
    data = batch(b"value")
    tail.append(data, [parse_header(data)], FILE, 0)
    before = bytes(data)
    data[:] = bytes(len(data))
    [part] = tail.read(0, 1000, 10, True) or []
    assert isinstance(part, memoryview) and bytes(part) == before


@pytest.mark.parametrize("gap", [0, 100])
def test_a_large_read_returns_slices_of_the_file_so_that_a_slow_consumer_pins_no_memory(gap: int) -> None:
    tail = Tail(TailBudget())
    size = MEMORY_READ_BYTES_MAX // 4
    position = FILE.size()
    for offset in range(8):
        position += add(tail, offset, size, position) + (gap if offset == 5 else 0)
    assert all(isinstance(part, memoryview) for part in tail.read(5, 10**9, 10**9, True) or [])
    large = tail.read(1, 10**9, 10**9, True) or []
    assert [type(part) for part in large] == [FileSlice] * (1 if gap == 0 else 2)
    assert offsets(tail, 1) == list(range(1, 8))
    assert offsets(tail, 1, bound=7) == list(range(1, 7))
    assert offsets(tail, 1, max_bytes=6 * size) == list(range(1, 6))


def test_a_large_batch_has_its_bytes_beside_its_place_in_the_file() -> None:
    tail = Tail(TailBudget())
    for offset in range(2):
        add(tail, offset, LARGE_BATCH_BYTES)
    large = tail.read(0, 10**9, 10**9, True) or []
    assert len(large) == 2
    for part in large:
        assert isinstance(part, FileSlice) and part.data is not None
        assert bytes(part.data) == part.file.pread(part.size, part.position)
