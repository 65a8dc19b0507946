"""Who counts as a voter: agreement at first boot, the swap of a directory, and an operator's word."""

import msgspec

from kvorum.quorum.raft.commands import voters_command, voters_of
from kvorum.quorum.raft.voters import StoredState, Voters, decode_state, encode_state

A, B, C, B2 = (bytes([number]) * 16 for number in (1, 2, 3, 4))
ALL = {1: A, 2: B, 3: C}


def voters(node_id: int, directory: bytes, *, known: bool = False) -> Voters:
    pins = dict(ALL) if known else {node_id: directory}
    state = StoredState("c", node_id, directory, [1, 2, 3], pins, known, [], {}, 0)
    return Voters(state)


def test_the_state_is_restored() -> None:
    state = voters(1, A, known=True).state
    assert decode_state(encode_state(state)) == state


def test_first_boot_ends_when_all_have_pinned_all() -> None:
    one = voters(1, A)
    assert not one.may_vote()
    assert one.hello(2, B, {2: B}, [])
    assert not one.hello(2, B, {1: A, 2: B}, []) and not one.may_vote()
    assert one.hello(3, C, {1: A, 3: C}, [])
    assert one.may_vote() and one.may_stand() and one.counts(2) and one.counts(3)


def test_a_directory_that_others_do_not_know_never_becomes_ready() -> None:
    wiped = voters(2, B2)
    wiped.hello(1, A, ALL, [])
    wiped.hello(3, C, ALL, [])
    assert set(wiped.state.pins) == {1, 2, 3} and not wiped.may_vote()
    knowing = voters(1, A, known=True)
    knowing.hello(2, B2, {2: B2}, [])
    assert not knowing.counts(2) and not knowing.may_lead(2)
    assert knowing.pins() == ALL, "the first pin stays"


def test_a_swap_counts_under_neither_identity_until_it_is_committed() -> None:
    one = voters(1, A, known=True)
    one.applied(2, dict(ALL))
    one.hello(2, B2, {}, [])
    one.hello(3, C, ALL, [])
    assert one.proposal({3}) is None
    assert one.proposal({2, 3}) == {1: A, 2: B2, 3: C}
    one.added(9, {1: A, 2: B2, 3: C})
    assert not one.counts(2) and one.counts(3) and one.proposal({2}) is None
    assert one.may_lead(2), "a vote for it is safe: it counts itself only if it knows that it is committed"
    one.present[2] = B
    assert not one.counts(2) and not one.may_lead(2)
    one.present[2] = B2
    assert one.applied(9, {1: A, 2: B2, 3: C})
    assert one.counts(2)


def test_a_truncated_swap_never_was() -> None:
    one = voters(1, A, known=True)
    one.applied(2, dict(ALL))
    one.hello(2, B, ALL, [])
    one.added(9, {1: A, 2: B2, 3: C})
    assert not one.counts(2)
    one.truncated(9)
    assert one.counts(2)


def test_of_several_sets_in_the_log_only_the_newest_may_be_uncommitted() -> None:
    """After a restart: an older set in the log is committed, since a newer one was proposed."""
    one = voters(1, A, known=True)
    one.hello(2, B2, {}, [])
    one.hello(3, C, ALL, [])
    one.added(2, dict(ALL))
    one.added(9, {1: A, 2: B2, 3: C})
    one.added(12, {1: A, 2: B2, 3: C})
    assert one.counts(2)


def test_an_older_set_applied_again_after_a_restart_changes_nothing() -> None:
    one = voters(1, A, known=True)
    one.applied(9, {1: A, 2: B2, 3: C})
    assert not one.applied(2, dict(ALL))
    assert one.committed == {1: A, 2: B2, 3: C}


def test_an_operators_pin_is_effective_at_once_and_reaches_the_affected_node() -> None:
    survivor, wiped = voters(3, C, known=True), voters(2, B2)
    survivor.applied(2, dict(ALL))
    survivor.hello(2, B2, {2: B2}, [])
    assert not survivor.counts(2)
    survivor.force(2, B2)
    assert survivor.counts(2) and survivor.proposal(set()) == {1: A, 2: B2, 3: C}
    assert wiped.hello(3, C, survivor.pins(), list(survivor.state.forced))
    assert wiped.may_vote() and wiped.counts(3)
    survivor.applied(7, {1: A, 2: B2, 3: C})
    assert survivor.state.forced == [] and survivor.counts(2)


def test_two_lost_directories_are_given_back_one_after_the_other() -> None:
    survivor, c2 = voters(1, A, known=True), bytes([5]) * 16
    survivor.applied(2, dict(ALL))
    survivor.force(2, B2)
    survivor.force(3, c2)
    survivor.hello(2, B2, {}, [])
    survivor.hello(3, c2, {}, [])
    assert survivor.counts(2) and survivor.counts(3)
    first = survivor.proposal(set())
    assert first == {1: A, 2: B2, 3: C}
    survivor.applied(7, first)
    assert survivor.counts(2) and survivor.counts(3)
    assert survivor.proposal(set()) == {1: A, 2: B2, 3: c2}
    survivor.force(3, B)
    assert not survivor.counts(3), "the operator's last word counts"


WHERE = {1: [("CONTROLLER", "one", 9093)]}


def dynamic(node_id: int, directory: bytes, initial: dict[int, bytes]) -> Voters:
    """Return a dynamic quorum's node; it begins as an observer where `initial` is empty."""
    endpoints = {each: [("CONTROLLER", f"host-{each}", 9093)] for each in initial}
    state = StoredState(
        "c", node_id, directory, sorted(initial), dict(initial), bool(initial), [], {}, 0, True, endpoints
    )
    return Voters(state)


def test_a_static_quorums_state_has_the_old_format_and_a_dynamic_ones_is_restored() -> None:
    static, state = voters(1, A, known=True).state, dynamic(1, A, {1: A}).state
    assert len(msgspec.msgpack.decode(encode_state(static))) == 10
    assert decode_state(encode_state(state)) == state and state.dynamic


def test_the_newest_set_is_in_force_before_it_is_committed_and_goes_with_its_entry() -> None:
    one = dynamic(1, A, {1: A})
    assert (one.ids, one.majority, one.others_needed, one.may_stand()) == ([1], 1, 0, True)
    one.applied(2, {1: A}, WHERE)
    one.added(5, {1: A, 2: B}, {**WHERE, 2: [("CONTROLLER", "two", 9093)]})
    assert (one.ids, one.majority, one.others_needed) == ([1, 2], 2, 1)
    one.hello(2, B, {}, [])
    assert one.counts(2) and one.endpoints[2] == [("CONTROLLER", "two", 9093)]
    one.truncated(5)
    assert (one.ids, one.counts(2), one.endpoints) == ([1], False, WHERE)


def test_a_leader_that_is_removed_needs_a_majority_of_the_others() -> None:
    one = dynamic(1, A, dict(ALL))
    one.applied(2, dict(ALL), {})
    one.added(5, {2: B, 3: C}, {})
    assert (one.counts_itself, one.majority, one.others_needed, one.may_stand()) == (False, 2, 2, True)
    one.applied(5, {2: B, 3: C}, {})
    assert not one.may_stand()


def test_an_observer_grants_votes_and_is_a_candidate_only_in_a_voter_set() -> None:
    """A voter that has not heard yet that it is one must not keep another from being elected."""
    four = dynamic(4, B2, {})
    four.hello(1, A, {}, [])
    assert four.may_vote() and four.may_lead(1) and not four.may_stand()
    four.added(7, {**ALL, 4: B2}, {})
    assert four.may_stand()
    four.applied(7, {**ALL, 4: B2}, {})
    four.added(9, dict(ALL), {})
    four.applied(9, dict(ALL), {})
    assert not four.may_stand()


def test_a_voter_is_a_candidate_until_its_removal_is_committed() -> None:
    """Of two, the other may lack the entry that removes it: nobody else could be elected."""
    one = dynamic(1, A, {1: A, 2: B})
    assert one.may_stand()
    one.added(5, {2: B}, {2: []})
    assert one.may_stand() and not one.counts_itself and one.others_needed == 1
    one.applied(5, {2: B}, {2: []})
    assert not one.may_stand()
    observer = dynamic(3, A, {})
    observer.added(5, {2: B}, {2: []})
    assert not observer.may_stand(), "it was no voter before"


def test_a_lost_directory_counts_only_once_a_set_names_the_new_one() -> None:
    one = dynamic(1, A, dict(ALL))
    one.applied(2, dict(ALL), {})
    one.hello(2, B2, {}, [])
    assert not one.counts(2) and one.proposal({2, 3}) is None, "nobody is taken in again by itself"
    one.added(5, {1: A, 3: C}, {})
    one.applied(5, {1: A, 3: C}, {})
    one.added(6, {1: A, 2: B2, 3: C}, {})
    assert one.counts(2)


def test_voter_sets_of_both_kinds_are_encoded_and_decoded() -> None:
    endpoints = {1: [("CONTROLLER", "one", 9093), ("SECOND", "::1", 9094)], 2: [("CONTROLLER", "two", 9093)]}
    assert voters_of(voters_command({1: A, 2: B})) == ({1: A, 2: B}, None)
    assert voters_of(voters_command({2: B, 1: A}, endpoints)) == ({1: A, 2: B}, endpoints)
    assert voters_of(b"\x00Bbatch") is None and voters_of(b"\x01") is None
