"""Leader epochs: Kafka's rules by table, and two histories that must find where they part (KIP-101, KIP-279)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvorum.storage.epoch_cache import EpochCache, EpochEndOffset, EpochEntry


def cache(*entries: tuple[int, int]) -> EpochCache:
    return EpochCache([EpochEntry(*entry) for entry in entries])


def entries(found: EpochCache) -> list[tuple[int, int]]:
    return [tuple(entry) for entry in found.entries]


@pytest.mark.parametrize(
    ("before", "assigned", "after", "is_news"),
    [
        ([], (0, 0), [(0, 0)], True),
        ([(1, 10)], (1, 15), [(1, 10)], False),
        ([(1, 10)], (1, 10), [(1, 10)], False),
        ([(1, 10)], (1, 5), [(1, 5)], True),
        ([(1, 10)], (2, 20), [(1, 10), (2, 20)], True),
        ([(1, 10), (2, 20)], (3, 20), [(1, 10), (3, 20)], True),
        ([(1, 10), (2, 20)], (3, 15), [(1, 10), (3, 15)], True),
        ([(1, 10), (2, 20)], (3, 5), [(3, 5)], True),
        ([(1, 10), (4, 20)], (2, 30), [(1, 10), (2, 30)], True),
        ([(1, 10), (4, 20)], (0, 5), [(0, 5)], True),
    ],
    ids=["first", "known", "same", "earlier start", "next", "same start", "start in the middle of the last",
         "start before all", "an older epoch takes the newer ones away", "oldest of all"],
)  # fmt: skip
def test_assigning(
    before: list[tuple[int, int]], assigned: tuple[int, int], after: list[tuple[int, int]], is_news: bool
) -> None:
    found = cache(*before)
    assert found.assign(*assigned) is is_news
    assert entries(found) == after
    assert found.is_dirty is is_news


@pytest.mark.parametrize(
    ("read", "saved", "after"),
    [
        ([(1, 0), (2, 15)], [(1, 0), (2, 10)], [(1, 0), (2, 10)]),
        ([(1, 0), (3, 25)], [(1, 0), (2, 10), (3, 20)], [(1, 0), (2, 10), (3, 20)]),
        ([(1, 0), (2, 12), (4, 30)], [(1, 0), (2, 10)], [(1, 0), (2, 10), (4, 30)]),
        ([(1, 0), (2, 12)], [(1, 0), (2, 10), (5, 20)], [(1, 0), (2, 10)]),
        ([(3, 0), (4, 10)], [(3, 0), (4, 10), (5, 12)], [(3, 0), (4, 10)]),
        ([(3, 0), (6, 10)], [(3, 0), (5, 12)], [(3, 0), (6, 10)]),
        ([(1, 0), (2, 50), (3, 80), (4, 125)], [(3, 100), (4, 120)], [(1, 0), (2, 50), (3, 80), (4, 120)]),
        ([(1, 0), (3, 12), (4, 30)], [(2, 15), (4, 20)], [(1, 0), (3, 12), (4, 30)]),
        ([(1, 0)], [], [(1, 0)]),
        ([], [(1, 0), (2, 10)], []),
    ],
    ids=["first records gone", "an epoch gone", "newer than saved", "a lost tail", "a tail that was cut",
         "a tail in the place of which another came", "saved from a higher log start on", "of two histories",
         "nothing saved", "nothing left"],
)  # fmt: skip
def test_refining_by_saved_entries(
    read: list[tuple[int, int]], saved: list[tuple[int, int]], after: list[tuple[int, int]]
) -> None:
    found = cache(*read)
    found.refine([EpochEntry(*each) for each in saved])
    assert entries(found) == after
    assert found.is_dirty == (read != after)


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [(-1, (-1, -1)), (1, (1, 10)), (2, (2, 20)), (3, (2, 20)), (4, (4, 30)), (5, (4, 30)), (7, (7, 99)), (8, (-1, -1))],
    ids=["undefined", "before the first", "known", "between", "known too", "between too", "latest", "after the latest"],
)
def test_end_offsets(epoch: int, expected: tuple[int, int]) -> None:
    assert cache((2, 10), (4, 20), (7, 30)).end_offset_for(epoch, 99) == EpochEndOffset(*expected)


def test_an_empty_cache_knows_no_end() -> None:
    assert cache().end_offset_for(0, 5) == (-1, -1)
    assert cache().latest_epoch is cache().latest_entry is cache().earliest_entry is None


def test_neighbours() -> None:
    found = cache((2, 10), (4, 20))
    assert (found.latest_epoch, found.latest_entry, found.earliest_entry) == (4, (4, 20), (2, 10))
    assert [found.previous_epoch(epoch) for epoch in (2, 3, 4, 9)] == [None, 2, 2, 4]
    assert [found.epoch_for_offset(offset) for offset in (9, 10, 19, 20, 50)] == [None, 2, 2, 4, 4]


@pytest.mark.parametrize(
    ("end", "after"), [(31, [(2, 10), (4, 20), (7, 30)]), (30, [(2, 10), (4, 20)]), (20, [(2, 10)]), (5, [])]
)
def test_truncating_from_the_end(end: int, after: list[tuple[int, int]]) -> None:
    found = cache((2, 10), (4, 20), (7, 30))
    found.truncate_from_end(end)
    assert entries(found) == after
    assert found.is_dirty is (len(after) < 3)


@pytest.mark.parametrize(
    ("start", "after"),
    [
        (5, [(2, 10), (4, 20), (7, 30)]),
        (10, [(2, 10), (4, 20), (7, 30)]),
        (15, [(2, 15), (4, 20), (7, 30)]),
        (20, [(4, 20), (7, 30)]),
        (99, [(7, 99)]),
    ],
)
def test_truncating_from_the_start(start: int, after: list[tuple[int, int]]) -> None:
    found = cache((2, 10), (4, 20), (7, 30))
    found.truncate_from_start(start)
    assert entries(found) == after


@pytest.mark.parametrize(("end", "after"), [(35, [(7, 35)]), (30, [(7, 30)]), (29, [(4, 29)]), (9, []), (0, [])])
def test_an_emptied_log_keeps_the_last_saved_epoch_up_to_its_end(end: int, after: list[tuple[int, int]]) -> None:
    found = EpochCache()
    found.keep_last(cache((2, 10), (4, 20), (7, 30)).entries, end)
    assert entries(found) == after


def test_the_checkpoint_is_kafkas() -> None:
    text = cache((0, 0), (3, 120)).to_text()
    assert text == "0\n2\n0 0\n3 120\n"
    assert entries(EpochCache.parse(text)) == [(0, 0), (3, 120)]
    assert entries(EpochCache.parse("0\n0\n")) == []


@pytest.mark.parametrize(
    "text",
    ["", "1\n0\n", "0\n", "0\nx\n", "0\n2\n0 0\n", "0\n1\n0\n", "0\n1\n0 x\n", "0\n2\n1 0\n1 5\n", "0\n2\n0 5\n1 5\n",
     "0\n1\n-1 0\n", "\0" * 20],
)  # fmt: skip
def test_a_checkpoint_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        EpochCache.parse(text)


steps = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 30)), max_size=20)


@given(steps, st.integers(0, 30), st.integers(0, 30))
def test_epochs_and_offsets_always_ascend(assigned: list[tuple[int, int]], start: int, end: int) -> None:
    found = cache()
    for each in assigned:
        found.assign(*each)
    found.truncate_from_end(end)
    found.truncate_from_start(start)
    for before, after in zip(found.entries, found.entries[1:], strict=False):
        assert before.epoch < after.epoch and before.start_offset < after.start_offset
    assert entries(EpochCache.parse(found.to_text())) == entries(found)


histories = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), max_size=6)


@given(histories, histories, histories)
def test_two_histories_find_their_common_prefix(
    common: list[tuple[int, int]], mine: list[tuple[int, int]], theirs: list[tuple[int, int]]
) -> None:
    """A follower truncates by the leader's answers for its own latest epoch, again and again, as KIP-101 has it.

    It never cuts what both have, ends with nothing that only it has, and needs no more rounds than it has epochs.
    """

    def written(history: list[tuple[int, int]], parity: int) -> list[int]:
        """The epoch of each record; after the common part the two use different epochs."""
        found, epoch = [], 0
        for index, (step, count) in enumerate(common + history):
            epoch += 2 * step
            found += [epoch if index < len(common) else epoch + parity] * count
        return found

    def cache_of(records: list[int]) -> EpochCache:
        found = EpochCache()
        for offset, epoch in enumerate(records):
            found.assign(epoch, offset)
        return found

    leader, follower = written(theirs, 0), written(mine, 1)
    shared = next((i for i, (a, b) in enumerate(zip(leader, follower, strict=False)) if a != b), None)
    shared = min(len(leader), len(follower)) if shared is None else shared
    leader_cache, rounds = cache_of(leader), 0
    while follower and follower != leader[: len(follower)]:
        rounds += 1
        follower_cache = cache_of(follower)
        end = leader_cache.end_offset_for(follower[-1], len(leader))
        if end.epoch == -1:
            # Above all the leader knows, or it knows none: only its log end bounds the follower.
            end = EpochEndOffset(leader_cache.latest_epoch or 0, len(leader))
            if not leader:
                follower = []
                break
        own = follower_cache.end_offset_for(end.epoch, len(follower))
        cut = min(end.end_offset, own.end_offset if own.epoch != -1 else end.end_offset, len(follower))
        assert cut >= shared
        if cut == len(follower):
            break
        follower = follower[:cut]
        assert rounds <= len(set(written(mine, 1))) + 1
    assert follower == leader[: len(follower)]
    assert len(follower) >= min(shared, len(leader))
