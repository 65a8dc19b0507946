"""Each rule about brokers, broken once by hand and kept once just beside it: what cannot fail says nothing.

The rules of committed metadata stand in test_metadata_watch, those of a run's end in test_rest, the quorum's in
test_quorum_checker.
"""

from collections.abc import Callable

import pytest

from kvorum.broker.replica.isr import CommittedIsr
from kvorum.protocol.uuids import Uuid
from kvorum.storage.names import LOG_SUFFIX, segment_file
from sim.broker_incarnations import LostLog
from sim.ledger import Ledger, Violation
from sim.tolerance import broken_invariant, unclean_members_since
from tests.simulation.by_hand import ALL, KEY, NAME, World

Deed = Callable[[World], None]


def committed(world: World) -> None:
    """Have two records everywhere, committed."""
    world.write(b"a", b"b")
    world.mark(2)


def elected(world: World, leader: int = 2, isr: tuple[int, ...] = (2, 3), elr: tuple[int, ...] = ()) -> None:
    """Have another leader in the next epoch, which hears of it."""
    world.commit(leader, isr, elr, epoch=world.leader_epoch + 1)
    world.take_role(leader)


def comes_back(world: World, broker_id: int, end: int) -> None:
    """Have a broker killed and started with so much of its log, and registered anew."""
    replica = world.replicas[broker_id]
    world.invariants.incarnations.record_kill(broker_id)
    replica.cut(end)
    replica.begin_life()
    world.take_role(broker_id)


def robbed(world: World, broker_id: int, end: int) -> None:
    """Have a broker lose power, and what was not synced; it does not come back yet."""
    world.invariants.incarnations.record_power_loss(broker_id)
    world.replicas[broker_id].cut(end)
    world.replicas[broker_id].begin_life()


# Who leads, and in which epoch.


def leads_in_its_neighbours_epoch(world: World) -> None:
    world.take_role(2, leads=True)


def leads_in_the_next_epoch(world: World) -> None:
    committed(world)
    elected(world)


def goes_back_an_epoch(world: World) -> None:
    world.replicas[2].partition.leader_epoch -= 1
    world.look(2)


def goes_back_a_partition_epoch(world: World) -> None:
    world.replicas[2].partition.partition_epoch -= 1
    world.look(2)


def leads_without_what_is_committed(world: World) -> None:
    """It lost power, and is elected though others have everything."""
    committed(world)
    robbed(world, 2, 1)
    elected(world)


def leads_after_it_lost_nothing(world: World) -> None:
    committed(world)
    robbed(world, 2, 2)
    elected(world)


def lags_behind_and_is_nobody(world: World) -> None:
    world.commit(1, (1, 3))
    world.take_role(1)
    world.write(b"a", b"b", to=(1, 3))
    world.mark(2)


# The high watermark.


def commits_alone_from_the_first_record(world: World) -> None:
    world.commit(1, (1,))
    world.take_role(1)
    world.write(b"a", to=(1,))
    world.mark(1)


def commits_alone_later(world: World) -> None:
    committed(world)
    world.commit(1, (1,))
    world.take_role(1)
    world.write(b"c", to=(1,))
    world.mark(3)


def waits_alone(world: World) -> None:
    committed(world)
    world.commit(1, (1,), (2,))
    world.take_role(1)
    world.write(b"c", to=(1,))


def commits_with_two(world: World) -> None:
    committed(world)
    world.commit(1, (1, 2))
    world.take_role(1)
    world.write(b"c", to=(1, 2))
    world.mark(3)


def leader_takes_its_watermark_back(world: World) -> None:
    committed(world)
    world.mark(1)


def follower_takes_its_watermark_back(world: World) -> None:
    committed(world)
    world.mark(2, 2)
    world.mark(1, 2)


def new_leader_begins_with_an_older_watermark(world: World) -> None:
    committed(world)
    world.mark(1, 2)
    elected(world)


def commits_before_the_followers_have_it(world: World) -> None:
    world.write(b"a", to=(1,))
    world.mark(1)


def shows_what_is_not_committed(world: World) -> None:
    world.write(b"a", b"b")
    world.mark(1)
    world.mark(2, 2)


def shows_another_record(world: World) -> None:
    world.commit(1, (1, 3))
    world.take_role(1)
    world.write(b"a", to=(1, 3))
    world.write(b"x", to=(2,))
    world.mark(1)
    world.mark(1, 2)


def shows_less_than_is_committed(world: World) -> None:
    committed(world)
    world.mark(1, 2)


def says_more_than_lies_on_its_disk(world: World) -> None:
    committed(world)
    world.replicas[2].log.log_end_offset = 3
    world.look(2)


def member_cuts_off_what_is_committed(world: World) -> None:
    committed(world)
    world.replicas[3].cut(1)
    world.look(3)


def member_cuts_off_what_is_not_committed(world: World) -> None:
    committed(world)
    world.write(b"c", to=(3,))
    world.replicas[3].cut(2)
    world.look(3)


def candidate_of_the_elr_cuts_off_what_is_committed(world: World) -> None:
    committed(world)
    world.commit(1, (1,), (3,))
    world.replicas[3].cut(1)
    world.look(3)


# Members of the ISR.


def joins_without_what_it_lost(world: World) -> None:
    committed(world)
    world.commit(1, (1, 2))
    robbed(world, 3, 1)
    world.take_role(3)
    world.commit(1, ALL)


def joins_with_all_of_it(world: World) -> None:
    committed(world)
    world.commit(1, (1, 2))
    robbed(world, 3, 1)
    world.take_role(3)
    world.write(b"b", to=(3,))
    world.commit(1, ALL)


def is_waited_for_by_nobody(world: World) -> None:
    world.replicas[1].partition.isr_state = CommittedIsr(frozenset((1, 2)))
    world.look(1)


def is_not_waited_for_by_who_cannot_commit(world: World) -> None:
    world.replicas[1].partition.isr_state = CommittedIsr(frozenset((1,)))
    world.look(1)


# Losses.


def comes_back_without_what_it_wrote(world: World) -> None:
    committed(world)
    world.commit(1, (1, 2))
    comes_back(world, 3, 1)


def comes_back_with_what_it_wrote(world: World) -> None:
    committed(world)
    world.commit(1, (1, 2))
    comes_back(world, 3, 2)


def power_takes_what_was_not_synced(world: World) -> None:
    committed(world)
    world.commit(1, (1, 2))
    robbed(world, 3, 1)
    world.take_role(3)


def lagging(world: World) -> None:
    """Have broker 3 out of everything, and behind what is committed."""
    world.write(b"a")
    world.mark(1)
    world.commit(1, (1, 2))
    world.take_role(1)
    world.write(b"b", to=(1, 2))
    world.mark(2)


def leader_of_no_list_though_nobody_lost_anything(world: World) -> None:
    lagging(world)
    elected(world, 3, (3,))


def leader_of_no_list_after_an_operators_wish(world: World) -> None:
    lagging(world)
    world.invariants.unclean_elections.add(KEY)
    elected(world, 3, (3,))
    assert world.ledger.losses and world.ledger.end == 1


def leader_of_no_list_that_never_hears_of_it(world: World) -> None:
    """It is fenced before it led, and stays what the ISR has."""
    lagging(world)
    world.invariants.unclean_elections.add(KEY)
    for leader in (3, -1, -1):
        world.commit(leader, (3,), epoch=world.leader_epoch + 1)


def leader_of_no_list_that_led_and_cuts_off_what_is_left(world: World) -> None:
    leader_of_no_list_after_an_operators_wish(world)
    world.commit(-1, (3,), epoch=world.leader_epoch + 1)
    world.replicas[3].cut(0)
    world.look(3)


def last_member(world: World, *robbed_ones: int) -> None:
    """Have an ISR of broker 1 alone after all had everything; some lose power, and broker 1 comes back and leads."""
    committed(world)
    world.commit(1, (1,))
    for broker_id in robbed_ones:
        robbed(world, broker_id, 1)
    world.commit(-1, (1,))
    world.take_role(1)
    elected(world, 1, (1,))


def one_loss_is_too_many_for_the_elr(world: World) -> None:
    last_member(world, 1)


def two_losses_are_not(world: World) -> None:
    last_member(world, 1, 2)


def returns_with_the_watermark_of_before_a_loss(world: World) -> None:
    """The mark it wrote down covers records that are lost; it follows the new leader, and has not cut its log off."""
    committed(world)
    world.mark(2, 3)
    world.commit(1, (1,))
    world.invariants.incarnations.record_kill(3)
    for broker_id in (1, 2):
        robbed(world, broker_id, 1)
    world.commit(-1, (1,))
    world.take_role(1)
    elected(world, 1, (1,))
    world.write(b"x", to=(1,))
    assert world.ledger.losses and world.ledger.end == 1
    world.replicas[3].begin_life()
    world.replicas[3].log.high_watermark = 2
    world.take_role(3)


def takes_a_watermark_of_after_a_loss_over_what_is_lost(world: World) -> None:
    returns_with_the_watermark_of_before_a_loss(world)
    world.write(b"y", to=(2,))
    world.commit(1, (1, 2))
    world.take_role(1)
    world.mark(2)
    world.mark(1, 3)
    world.mark(2, 3)


# Where a log begins.


def deletes_what_nobody_asked_for(world: World) -> None:
    committed(world)
    world.replicas[2].log.log_start_offset = 1
    world.look(2)


def deletes_what_was_asked_for(world: World) -> None:
    committed(world)
    world.ledger.starts.note_request(1)
    world.replicas[2].log.log_start_offset = 1
    world.look(2)


def begins_earlier_again(world: World) -> None:
    deletes_what_was_asked_for(world)
    world.replicas[2].log.log_start_offset = 0
    world.look(2)


BROKEN: tuple[tuple[str, Deed], ...] = (
    ("SingleLeader", leads_in_its_neighbours_epoch),
    ("MonotonicEpoch", goes_back_an_epoch),
    ("MonotonicEpoch", goes_back_a_partition_epoch),
    ("LeaderCompleteness", leads_without_what_is_committed),
    ("MinIsr", commits_alone_from_the_first_record),
    ("MinIsr", commits_alone_later),
    ("MonotonicHighWatermark", leader_takes_its_watermark_back),
    ("LeaderCandidateCompleteness", commits_before_the_followers_have_it),
    ("LeaderCandidateCompleteness", member_cuts_off_what_is_committed),
    ("LeaderCandidateCompleteness", candidate_of_the_elr_cuts_off_what_is_committed),
    ("LeaderCandidateCompleteness", leader_of_no_list_that_led_and_cuts_off_what_is_left),
    ("LogMatching", shows_what_is_not_committed),
    ("LogMatching", shows_another_record),
    ("LogMatching", takes_a_watermark_of_after_a_loss_over_what_is_lost),
    ("LogOnDisk", says_more_than_lies_on_its_disk),
    ("JoinedIsComplete", joins_without_what_it_lost),
    ("ReplicationQuorumSuperset", is_waited_for_by_nobody),
    ("KillLosesNothing", comes_back_without_what_it_wrote),
    ("KillLosesNothing", leader_of_no_list_though_nobody_lost_anything),
    ("LogStart", deletes_what_nobody_asked_for),
    ("MonotonicLogStart", begins_earlier_again),
)
KEPT: tuple[Deed, ...] = (
    committed,
    leads_in_the_next_epoch,
    leads_after_it_lost_nothing,
    lags_behind_and_is_nobody,
    waits_alone,
    commits_with_two,
    follower_takes_its_watermark_back,
    new_leader_begins_with_an_older_watermark,
    shows_less_than_is_committed,
    member_cuts_off_what_is_not_committed,
    joins_with_all_of_it,
    is_not_waited_for_by_who_cannot_commit,
    comes_back_with_what_it_wrote,
    power_takes_what_was_not_synced,
    leader_of_no_list_after_an_operators_wish,
    leader_of_no_list_that_never_hears_of_it,
    returns_with_the_watermark_of_before_a_loss,
    deletes_what_was_asked_for,
)


@pytest.mark.parametrize(("kind", "deed"), BROKEN, ids=lambda value: getattr(value, "__name__", ""))
def test_a_violation_is_reported_by_its_name(kind: str, deed: Deed) -> None:
    world = World()
    with pytest.raises(Violation) as found:
        deed(world)
    assert found.value.kind == kind


@pytest.mark.parametrize("deed", KEPT, ids=lambda deed: deed.__name__)
def test_legal_histories_pass(deed: Deed) -> None:
    deed(World())


def test_with_elr_min_isr_less_one_losses_are_borne() -> None:
    """Two of three lost power with min ISR 2: legal, and told. Only one did: somebody else was to lead."""
    world = World(elr=True)
    two_losses_are_not(world)
    assert "committed records lost" in world.ledger.losses[0]
    with pytest.raises(Violation) as found:
        one_loss_is_too_many_for_the_elr(World(elr=True))
    assert found.value.kind == "ElrTolerance"


def test_a_broker_unregistered_while_alive_counts_as_failed() -> None:
    """Broker 2 has all, but is out of ISR and ELR by its new registration: one loss of power takes the rest."""
    world = World(elr=True)
    world.invariants.unregistered_brokers.add(2)
    one_loss_is_too_many_for_the_elr(world)
    assert "committed records lost" in world.ledger.losses[0]


def nobody_is_left(*fallen: int) -> None:
    """Have some killed, and the controllers drop them, and whoever else is left, from ISR and ELR.

    Broker 3 joined after the last commit: it counts as those do who were members then.
    """
    world = World(elr=True)
    world.write(b"a")
    world.commit(1, (1, 2))
    world.take_role(1)
    world.mark(1)
    world.commit(1, ALL)
    for broker_id in fallen:
        world.invariants.incarnations.record_kill(broker_id)
    world.commit(-1, ())


def test_candidates_are_missing_only_after_min_isr_brokers_fell() -> None:
    nobody_is_left(1, 3)
    with pytest.raises(Violation) as found:
        nobody_is_left(3)
    assert found.value.kind == "NoCommittedRecordLostGlobally"


def test_after_an_unclean_election_no_replica_is_known_to_have_earlier_commits() -> None:
    """It was legal, and left its leader alone with a promise: that one may fall, too."""
    world = World(elr=True)
    world.write(b"a")
    world.commit(1, (1, 2))
    world.take_role(1)
    world.mark(1)
    world.commit(-1, (), (1, 2))
    world.invariants.unclean_elections.add(KEY)
    world.commit(3, (3,), epoch=world.leader_epoch + 1)
    world.invariants.incarnations.record_kill(3)
    world.commit(-1, ())


def bereft(world: World, broker_id: int = 3) -> None:
    """Have a broker lose its log with the log's directory; it does not come back yet."""
    world.invariants.incarnations.record_kill(broker_id)
    world.invariants.incarnations.record_lost_directory(broker_id, [NAME], Uuid(b"d" * 16))
    world.replicas[broker_id].cut(0)
    world.replicas[broker_id].begin_life()


def test_a_replica_with_a_lost_log_is_not_eligible_after_the_brokers_next_registration() -> None:
    world = World(elr=True)
    committed(world)
    world.commit(1, (1,), (3,))
    bereft(world)
    world.commit(1, (1,), (3,))  # the controllers do not know yet
    world.replicas[3].broker_epoch = 9
    with pytest.raises(Violation) as found:
        world.commit(1, (1,), (3,))
    assert found.value.kind == "EligibleByALostLog"


def test_a_replica_with_all_records_again_is_eligible_with_its_new_log() -> None:
    world = World(elr=True)
    committed(world)
    world.commit(1, (1, 2))
    bereft(world)
    world.replicas[3].broker_epoch = 9
    world.commit(1, (1, 2))
    world.take_role(3)
    world.write(b"a", b"b", to=(3,))
    assert not world.invariants.incarnations.bereft
    world.commit(1, ALL)


def test_no_replica_leads_with_another_log_in_place_of_a_lost_one_without_an_operators_request() -> None:
    for wished in (True, False):
        world = World(elr=True)
        committed(world)
        world.commit(1, (1,))
        for broker_id in (1, 2):
            robbed(world, broker_id, 1)
        bereft(world)
        world.commit(-1, ())
        if wished:
            world.invariants.unclean_elections.add(KEY)
        world.replicas[3].broker_epoch = 9
        if wished:
            elected(world, 3, (3,))
            assert world.ledger.losses
            continue
        with pytest.raises(Violation) as found:
            elected(world, 3, (3,))
        assert found.value.kind == "EligibleByALostLog"
        world.invariants.incarnations.bereft[3, KEY] = LostLog(Uuid(b"d" * 16), 9)  # as if it had not been said so soon
        with pytest.raises(Violation) as found:
            world.take_role(3)
        assert found.value.kind == "LeadsWithoutItsLog"


def reassigned(world: World, *replicas: int) -> None:
    """Have a partition of one broker moved to others, which have all of it when it lets go."""
    left = world.assigned
    world.assigned, world.adding, world.removing = (*replicas, *left), replicas, left
    world.commit(world.leader, left)
    world.assigned, world.adding, world.removing = replicas, (), ()
    elected(world, replicas[0], replicas)


def test_a_replica_that_joins_by_the_change_that_removes_all_others_may_lose_it() -> None:
    world = World()
    committed(world)
    world.assigned = (2,)
    elected(world, 2, (2,))
    reassigned(world, 1)
    assert world.ledger.witnesses == {1} and not world.ledger.losses
    robbed(world, 1, 1)
    world.commit(-1, (1,))
    world.take_role(1)
    elected(world, 1, (1,))
    assert world.ledger.losses == ["orders-0: 1 committed records lost: all of [1] lost unsynced data"]


def test_only_a_removed_replica_may_lose_its_records() -> None:
    world = World()
    committed(world)
    world.assigned = (2,)
    elected(world, 2, (2,))
    reassigned(world, 1)
    robbed(world, 2, 1)
    world.replicas[1].cut(1)
    with pytest.raises(Violation) as found:
        world.look(1)
    assert found.value.kind == "LeaderCandidateCompleteness"


def test_a_lost_log_is_a_fall_of_that_partition_alone() -> None:
    world = World(elr=True)
    committed(world)
    bereft(world)
    assert unclean_members_since(world.ledger, {}) == [3]
    assert unclean_members_since(Ledger("other-0"), {}) == []
    assert "only [3] fell hard" in str(broken_invariant(world.ledger, "it is gone", {}, set(), set(), 1))


def test_replicas_in_a_failed_directory_are_neither_missing_nor_removed() -> None:
    world = World(elr=True)
    committed(world)
    replica = world.replicas[3]
    world.commit(1, (1, 2))
    world.invariants.incarnations.record_kill(3)
    replica.folder = f"/other/{NAME}"  # its own is out of reach: a new one, elsewhere
    replica.disk.mkdir(replica.folder)
    replica.path = segment_file(replica.folder, 0, LOG_SUFFIX)
    replica.disk.open(replica.path, create=True)
    replica.positions = [0]
    replica.disk.broken.add("/d")
    replica.begin_life()
    world.take_role(3)
    world.invariants.incarnations.record_kill(3)
    world.invariants.incarnations.by_broker.clear()
    assert world.invariants.incarnations.killed_logs[3][NAME].folder == replica.folder


def test_without_elr_one_loss_of_the_last_member_is_legal() -> None:
    """KIP-966's reason to be."""
    world = World()
    one_loss_is_too_many_for_the_elr(world)
    assert world.ledger.losses
