"""The map of keys: what it holds, in how many bytes, and keys that are made to be taken for one another."""

import itertools
import random

import mmh3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvorum.storage.cleaner.offset_map import NOT_FOUND, SECRET_SIZE, SLOT_SIZE, OffsetMap
from tests.unit.storage.cleaner.kit import Broker, compacted, put, values_of

SECRET = bytes(range(SECRET_SIZE))
WORD = 0xFFFFFFFF
C1, C2 = 0xCC9E2D51, 0x1B873593


def word_of(mixed: int) -> bytes:
    """The four bytes that MurmurHash3 (x86, 32 bits) mixes to this word."""
    value = mixed * pow(C2, -1, 2**32) & WORD
    value = (value >> 15 | value << 17) & WORD
    return (value * pow(C1, -1, 2**32) & WORD).to_bytes(4, "little")


def colliding_keys(count: int) -> list[bytes]:
    """Keys of one Murmur3 hash, whatever the seed: a difference that the next word takes back, at every other word."""
    pairs = []
    rng = random.Random(3)
    for _ in range((count - 1).bit_length()):
        first, second = rng.getrandbits(32), rng.getrandbits(32)
        pairs.append((word_of(first) + word_of(second), word_of(first ^ 0x00040000) + word_of(second ^ 0x80000000)))
    return [b"".join(parts) for parts in itertools.islice(itertools.product(*pairs), count)]


def test_crafted_keys_do_collide_under_murmur() -> None:
    keys = colliding_keys(256)
    assert len(set(keys)) == 256
    for seed in (0, 1, 42, 0xDEADBEEF):
        assert len({mmh3.hash(key, seed) for key in keys}) == 1


def test_keys_that_collide_under_murmur_keep_their_own_offsets() -> None:
    keys = colliding_keys(1024)
    offset_map = OffsetMap(SLOT_SIZE * 2048, SECRET)
    for offset, key in enumerate(keys):
        offset_map.put(key, offset)
    assert [offset_map.get(key) for key in keys] == list(range(1024))


def test_keys_that_collide_under_murmur_are_spread_over_the_slots() -> None:
    """Else each look-up would walk through all of them: cleaning would take the square of their number."""
    keys = colliding_keys(1024)
    offset_map = OffsetMap(SLOT_SIZE * 4096, SECRET)
    for offset, key in enumerate(keys):
        offset_map.put(key, offset)
    taken = [offset_map._data[at * SLOT_SIZE : (at + 1) * SLOT_SIZE] != bytes(SLOT_SIZE) for at in range(4096)]
    longest = max(len(list(run)) for is_taken, run in itertools.groupby(taken) if is_taken)
    assert longest < 40


def test_no_crafted_key_deletes_the_last_value_of_another() -> None:
    broker = Broker(compacted(segment_bytes=4000))
    keys = colliding_keys(64)
    for key in keys:
        put(broker.log, (key, b"old"))
    for key in keys:
        put(broker.log, (key, b"of " + key))
    broker.settle()
    assert broker.clean()
    assert values_of(broker.log) == {key: b"of " + key for key in keys}


def test_the_identity_depends_on_the_secret() -> None:
    """Who does not know it cannot look for keys of one identity."""
    found = []
    for secret in (SECRET, bytes(SECRET_SIZE)):
        offset_map = OffsetMap(SLOT_SIZE * 8, secret)
        offset_map.put(b"key", 1)
        found.append(bytes(offset_map._data[:]))
    assert found[0] != found[1]


@given(st.lists(st.tuples(st.binary(max_size=3), st.integers(0, 2**62)), max_size=60))
def test_it_is_a_dictionary(pairs: list[tuple[bytes, int]]) -> None:
    offset_map = OffsetMap(SLOT_SIZE * 64, SECRET)
    expected: dict[bytes, int] = {}
    for key, offset in pairs:
        offset_map.put(key, offset)
        expected[key] = offset
        assert offset_map.size == len(expected)
    for key in [*expected, b"none of them"]:
        assert offset_map.get(key) == expected.get(key, NOT_FOUND)
    offset_map.clear()
    assert offset_map.size == 0
    assert all(offset_map.get(key) == NOT_FOUND for key in expected)


def test_memory_is_within_the_limit() -> None:
    offset_map = OffsetMap(10 * SLOT_SIZE + 5, SECRET)
    assert (offset_map.slots, offset_map.memory_bytes) == (10, 10 * SLOT_SIZE)
    assert OffsetMap(1 << 27, SECRET, slots_max=100).memory_bytes == 100 * SLOT_SIZE


def test_a_full_map_is_a_fault_of_the_caller() -> None:
    offset_map = OffsetMap(4 * SLOT_SIZE, SECRET)
    for key in (b"a", b"b", b"c"):
        offset_map.put(key, 1)
    offset_map.put(b"a", 2)
    with pytest.raises(AssertionError):
        offset_map.put(b"d", 1)
