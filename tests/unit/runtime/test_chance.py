"""Chance comes from one place, and uuids are fit to be ids."""

import base64
import random
import uuid

from kvorum.runtime.chance import new_random, random_uuid_bytes


def test_the_same_seed_gives_the_same_chance() -> None:
    assert [new_random(7).random() for _ in range(3)] == [new_random(7).random() for _ in range(3)]
    assert new_random(7).random() != new_random(8).random()
    assert new_random().random() != new_random().random()


def test_uuids_are_version_4_differ_and_never_begin_with_a_dash() -> None:
    found = [random_uuid_bytes() for _ in range(2_000)]
    assert len(set(found)) == 2_000
    assert {uuid.UUID(bytes=each).version for each in found} == {4}
    assert not any(base64.urlsafe_b64encode(each).startswith(b"-") for each in found)


def test_uuids_from_a_given_source_can_be_had_again() -> None:
    one, other = random.Random(1), random.Random(1)
    assert [random_uuid_bytes(one) for _ in range(500)] == [random_uuid_bytes(other) for _ in range(500)]
    assert uuid.UUID(bytes=random_uuid_bytes(one)).version == 4


def test_a_uuid_that_would_begin_with_a_dash_is_drawn_again() -> None:
    class Scripted(random.Random):
        drawn = 0

        def randbytes(self, n: int) -> bytes:
            self.drawn += 1
            return b"\xf8" * n if self.drawn == 1 else b"\x01" * n

    source = Scripted()
    assert random_uuid_bytes(source)[0] == 1
    assert source.drawn == 2
