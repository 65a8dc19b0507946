"""Who is suspected of having just died: against a model, over any order of what can happen."""

from hypothesis import given
from hypothesis import strategies as st

from kvorum.broker.metadata.suspicion import SUSPECTED_MAX, Suspicions

BROKERS = (1, 2, 3)
EVENTS = st.one_of(
    st.tuples(st.sampled_from(("closed", "answered", "give up")), st.sampled_from(BROKERS)),
    st.tuples(st.sampled_from(("fenced", "unfenced", "replaced")), st.sampled_from(BROKERS)),
)


@given(st.lists(EVENTS, max_size=60))
def test_an_incarnation_is_suspected_once_until_it_has_answered(events: list[tuple[str, int]]) -> None:
    """Whatever happens: only who lives in the metadata is suspected, and nobody twice without a sign of life."""
    suspicions = Suspicions()
    epochs = dict.fromkeys(BROKERS, 5)
    fenced: set[int] = set()
    silent: set[tuple[int, int]] = set()
    """Incarnations that were suspected and have neither answered nor been fenced since."""

    def alive(broker_id: int) -> int | None:
        return None if broker_id in fenced else epochs[broker_id]

    for event, broker_id in events:
        epoch = epochs[broker_id]
        match event:
            case "closed":
                expected = broker_id not in fenced and (broker_id, epoch) not in silent
                assert suspicions.closed(broker_id, alive(broker_id)) is expected
                if expected:
                    silent.add((broker_id, epoch))
            case "answered":
                suspicions.answered(broker_id, epoch)
                silent.discard((broker_id, epoch))
                assert broker_id not in suspicions.suspected
            case "give up":
                was = broker_id in suspicions.suspected
                assert suspicions.give_up(broker_id, epoch) is was
                assert broker_id not in suspicions.suspected
            case "fenced" | "replaced" | "unfenced":
                fenced.discard(broker_id)
                if event == "fenced":
                    fenced.add(broker_id)
                elif event == "replaced":
                    epochs[broker_id] += 1
                suspicions.metadata_moved(alive)
                silent = {(each, known) for each, known in silent if alive(each) == known}
        assert {each: epochs[each] for each in suspicions.suspected} == suspicions.suspected
        assert all((each, epochs[each]) in silent for each in suspicions.suspected)
        assert all(suspicions.knows(each, epochs[each]) is ((each, epochs[each]) in silent) for each in BROKERS)
        assert suspicions.among([1, 2]) == suspicions.suspected.keys() & {1, 2}


def test_a_heartbeat_of_an_older_incarnation_does_not_count() -> None:
    suspicions = Suspicions()
    assert suspicions.closed(1, 7)
    suspicions.answered(1, 6)
    assert not suspicions.give_up(1, 6)
    assert suspicions.suspected == {1: 7}


def test_more_closed_doors_than_can_be_theirs_are_not_held_against_them() -> None:
    suspicions = Suspicions()
    assert all(suspicions.closed(each, 0) for each in range(SUSPECTED_MAX))
    assert not suspicions.closed(SUSPECTED_MAX, 0)
    suspicions.answered(0, 0)
    assert suspicions.closed(SUSPECTED_MAX, 0)
