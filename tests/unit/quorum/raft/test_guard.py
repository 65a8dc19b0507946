"""The guard's rules, held against Raft's own definition of a log's prefix."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kvorum.quorum.raft.guard import AckFilter, judge_append, snapshot_is_useful

TERMS = st.lists(st.integers(0, 2), max_size=12)


def ascending(steps: list[int]) -> list[int]:
    """Turn steps into a log's terms, which never go down."""
    terms, term = [0], 0
    for step in steps:
        term += step == 2
        terms.append(term)
    return terms


def last_same_term_start(log: list[int], first_index: int, index: int, floor: int) -> int:
    place = index - first_index
    while place > 0 and log[place - 1] == log[place] and first_index + place - 1 >= floor:
        place -= 1
    return first_index + place


@settings(max_examples=1000, deadline=None)
@given(shared=TERMS, mine=TERMS, theirs=TERMS, data=st.data())
def test_an_append_results_in_the_log_that_raft_requires(
    shared: list[int], mine: list[int], theirs: list[int], data: st.DataObject
) -> None:
    """Two logs with a common part; whatever piece of the leader's arrives, what is committed stays."""
    common = ascending(shared)
    top = common[-1]
    follower = common + [top + 1 + term for term in ascending(mine)[1:]]
    leader = common + [top + 10 + term for term in ascending(theirs)[1:]]
    committed = data.draw(st.integers(1, len(common)))
    first = data.draw(st.integers(1, committed))
    previous = data.draw(st.integers(1, len(leader)))
    count = data.draw(st.integers(0, len(leader) - previous))
    log = follower[first - 1 :]

    def term_at(index: int) -> int | None:
        return log[index - first] if first <= index < first + len(log) else None

    verdict = judge_append(
        previous,
        leader[previous - 1],
        leader[previous : previous + count],
        first_index=first,
        last_index=first + len(log) - 1,
        committed=committed,
        term_at=term_at,
        first_index_of_term=lambda index, floor: last_same_term_start(log, first, index, floor),
    )
    result = list(follower)
    if verdict.matched:
        if verdict.truncate_from is not None:
            assert verdict.truncate_from > committed
            del result[verdict.truncate_from - 1 :]
        at = previous + verdict.skip
        for term in leader[previous + verdict.skip : previous + count]:
            at += 1
            assert at == len(result) + 1
            result.append(term)
        assert verdict.at == previous + count
        assert result[: verdict.at] == leader[: verdict.at]
        cut, arrived = verdict.truncate_from is not None, leader[: previous + count]
        assert cut == any(a != b for a, b in zip(follower, arrived, strict=False)), "only on conflict"
    else:
        assert committed < verdict.at <= max(previous, len(follower) + 1)
        assert previous > len(follower) or follower[previous - 1] != leader[previous - 1]
    assert result[:committed] == leader[:committed]


def test_snapshots_that_bring_nothing_are_not_wanted() -> None:
    terms = {5: 2, 6: 2}
    assert snapshot_is_useful(9, 3, committed=6, term_at=terms.get)
    assert not snapshot_is_useful(4, 1, committed=6, term_at=terms.get), "older than what is committed"
    assert not snapshot_is_useful(6, 2, committed=4, term_at=terms.get), "its end is in the log"
    assert snapshot_is_useful(6, 3, committed=4, term_at=terms.get), "the log there is another"


def test_answers_count_in_their_term_and_session_only() -> None:
    one = AckFilter()
    one.new_session(10)
    assert one.accepts(3, 11, current_term=3)
    assert not one.accepts(2, 11, current_term=3)
    assert not one.accepts(3, 10, current_term=3)


def test_one_gap_makes_one_rewind() -> None:
    one = AckFilter()
    assert one.may_rewind(5)
    one.rewound(9)
    assert [one.may_rewind(number) for number in (6, 9, 10)] == [False, False, True]
