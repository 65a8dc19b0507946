"""How a follower's log comes to agree with its leader's: the cases of divergence, and any two histories."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvorum.broker.replica.follower import FIRST_BACKOFF_MS, Follower, FollowerPhase, Outcome
from kvorum.broker.replica.partition import Partition
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.fetch import PartitionData
from tests.unit.broker.replica.replica_kit import ModelLog, a_partition, batch, follower_fetch, registration, row_of

BACKOFF_MS = 1000
History = list[tuple[int, int]]
"""(leader epoch, records written in it), oldest first."""


def log_of(history: History, tag: str = "") -> ModelLog:
    """A log with these records, each of which names its epoch, its place and who wrote it (`tag`)."""
    log = ModelLog()
    for epoch, count in history:
        log.assign_epoch_start_offset(epoch, log.log_end_offset)
        for index in range(count):
            log.append_as_leader(batch(f"{epoch}/{index}{tag}".encode()), epoch)
    return log


def leading(log: ModelLog, leader_epoch: int) -> Partition:
    partition = a_partition(broker_id=1)
    partition.make_leader(registration(isr=(1,), leader_epoch=leader_epoch), log, 0)
    return partition


def following(log: ModelLog, leader_epoch: int) -> Follower:
    partition = a_partition(broker_id=2)
    partition.make_follower(registration(isr=(1,), leader_epoch=leader_epoch), log)
    return Follower(partition, BACKOFF_MS)


def one_fetch(follower: Follower, leader: Partition, max_bytes: int = 1 << 20) -> Outcome:
    """One round of the protocol between the two."""
    offset, epoch, start = follower.fetch_position()
    try:
        read = follower_fetch(
            leader, 2, offset, leader_epoch=follower.leader_epoch, last_fetched_epoch=epoch,
            log_start_offset=start, max_bytes=max_bytes,
        )  # fmt: skip
    except KafkaError as error:
        return follower.on_fetched(offset, PartitionData(error_code=error.code), 0)
    return follower.on_fetched(offset, row_of(read), 0)


def catch_up(follower: Follower, leader: Partition, rounds_max: int = 100) -> int:
    """Fetch until nothing is new; return how often the log was cut."""
    cuts = 0
    for _ in range(rounds_max):
        if follower.phase is FollowerPhase.RESETTING:
            log = leader.log_or_raise(-1, require_leader=True)
            start_epoch = log.epoch_cache.epoch_for_offset(log.log_start_offset)
            follower.on_leader_range(
                log.log_start_offset, -1 if start_epoch is None else start_epoch, log.log_end_offset
            )
        outcome = one_fetch(follower, leader)
        cuts += outcome is Outcome.TRUNCATED
        if outcome is Outcome.NOTHING_NEW:
            return cuts
    raise AssertionError("the logs do not come to agree")


# The ways in which a follower's log can leave its leader's; (leader, follower, cut to).
DIVERGENCES: dict[str, tuple[History, History, int]] = {
    "A: the follower is a prefix in the same epoch": ([(0, 5)], [(0, 3)], 3),
    "B: the follower is ahead in the same epoch": ([(0, 3), (1, 2)], [(0, 5)], 3),
    "C: the follower is behind, epochs followed": ([(0, 3), (1, 2)], [(0, 3)], 3),
    "D: the follower has an epoch the leader never saw": ([(0, 3), (2, 2)], [(0, 3), (1, 4)], 3),
    "E: the follower ended an epoch later than the leader": ([(0, 2), (3, 4)], [(0, 6)], 2),
    "F: several epochs on both sides, none shared but the first": (
        [(0, 2), (2, 2), (4, 2), (6, 2)],
        [(0, 2), (1, 2), (3, 2), (5, 2)],
        2,
    ),
    "G: an epoch without records on the leader": ([(0, 3), (1, 0), (2, 2)], [(0, 3), (1, 3)], 3),
    "H: nothing is shared": ([(2, 3)], [(1, 5)], 0),
}


@pytest.mark.parametrize("name", DIVERGENCES)
def test_divergence(name: str) -> None:
    leader_history, follower_history, common = DIVERGENCES[name]
    leader_log, log = log_of(leader_history, " L"), log_of(follower_history, " F")
    for shared_log in (leader_log, log):
        shared_log.batches[:common] = log_of([(0, common)]).batches if common else []
    epoch = leader_history[-1][0] + 1
    leader, follower = leading(leader_log, epoch), following(log, epoch)
    before = log.history[:common]
    catch_up(follower, leader)
    assert log.history == leader_log.history
    assert log.history[:common] == before
    assert all(offset >= common for offset in log.truncations), "never cut below what was shared"


def test_a_followers_sync_state_follows_the_leaders_high_watermark_and_before_that_the_isr() -> None:
    leader, follower = leading(log_of([(0, 3)]), 1), following(log_of([(0, 1)]), 1)
    assert not follower.is_in_sync, "the ISR is its leader alone"
    one_fetch(follower, leader, max_bytes=1)
    assert follower.partition.log is not None and follower.partition.log.log_end_offset == 2
    assert not follower.is_in_sync
    catch_up(follower, leader)
    assert follower.is_in_sync
    partition = a_partition(broker_id=2)
    partition.make_follower(registration(isr=(1, 2), leader_epoch=1), log_of([(0, 1)]))
    follower = Follower(partition, BACKOFF_MS)
    assert follower.is_in_sync, "its leader has said nothing yet"
    one_fetch(follower, leader, max_bytes=1)
    assert not follower.is_in_sync


def test_the_high_watermark_is_nothing_to_cut_by() -> None:
    """A committed record that this follower had, but did not know to be committed, must outlive a change of leader."""
    log = log_of([(0, 3)])
    log.high_watermark = 1
    leader_log = log_of([(0, 3)])
    follower = following(log, 1)
    catch_up(follower, leading(leader_log, 1))
    assert log.truncations == []
    assert log.log_end_offset == 3


def test_an_epoch_that_was_led_without_a_record_is_forgotten_when_the_leader_never_had_it() -> None:
    """This broker led epoch 1 for a moment, noted its start, and wrote nothing."""
    log = log_of([(0, 3), (1, 0)])
    leader_log = log_of([(0, 3), (2, 1)])
    follower = following(log, 2)
    catch_up(follower, leading(leader_log, 2))
    assert [entry.epoch for entry in log.epoch_cache.entries] == [0, 2]
    assert log.history == leader_log.history


def histories() -> st.SearchStrategy[tuple[History, History, History]]:
    """A shared prefix, and what each side wrote after it; epochs ascend, and are never both sides' own."""

    def build(shared: list[int], mine: list[tuple[bool, int]]) -> tuple[History, History, History]:
        epoch = 0
        prefix: History = []
        for count in shared:
            prefix.append((epoch, count))
            epoch += 1
        leaders: History = []
        followers: History = []
        for is_leaders, count in mine:
            (leaders if is_leaders else followers).append((epoch, count))
            epoch += 1
        return prefix, leaders, followers

    counts = st.lists(st.integers(0, 4), max_size=4)
    return st.builds(build, counts, st.lists(st.tuples(st.booleans(), st.integers(0, 4)), max_size=8))


@settings(max_examples=400, deadline=None)
@given(histories(), st.integers(0, 4))
def test_any_two_histories_with_a_shared_prefix_agree_after_as_many_cuts_as_there_are_epochs(
    made: tuple[History, History, History], extra: int
) -> None:
    prefix, leaders, followers = made
    # The follower may also have gone on in the last shared epoch: records that never reached anybody else.
    own = list(followers)
    leader_log = log_of(prefix + leaders)
    log = log_of(prefix)
    common = log.log_end_offset
    if prefix and not leaders:
        extra = 0
    for index in range(extra if prefix else 0):
        log.append_as_leader(batch(f"lost {index}".encode()), prefix[-1][0])
    for epoch, count in own:
        log.assign_epoch_start_offset(epoch, log.log_end_offset)
        for index in range(count):
            log.append_as_leader(batch(f"{epoch}/{index}".encode()), epoch)
    epochs = len({entry.epoch for entry in leader_log.epoch_cache.entries + log.epoch_cache.entries}) + 1
    epoch = max([each for each, _ in prefix + leaders + followers], default=0) + 1
    before = log.history[:common]
    leader, follower = leading(leader_log, epoch), following(log, epoch)
    cuts = 0
    for _ in range(100):
        outcome = one_fetch(follower, leader)
        assert outcome is not Outcome.OUT_OF_RANGE, "the epochs tell"
        cuts += outcome is Outcome.TRUNCATED
        if outcome is Outcome.NOTHING_NEW:
            break
    assert log.history == leader_log.history
    assert cuts <= epochs
    assert log.history[:common] == before
    assert all(offset >= common for offset in log.truncations)


class TestOutOfRange:
    def test_a_leader_that_deleted_what_is_missing_makes_it_start_again(self) -> None:
        leader_log = log_of([(0, 10)])
        leader_log.high_watermark = 10
        leader_log.maybe_increment_log_start_offset(6)
        log = log_of([(0, 2)])
        leader, follower = leading(leader_log, 1), following(log, 1)
        assert one_fetch(follower, leader) is Outcome.OUT_OF_RANGE
        assert follower.phase is FollowerPhase.RESETTING
        assert not follower.is_ready(FollowerPhase.FETCHING, 0)
        follower.on_leader_range(6, 0, 10)
        catch_up(follower, leader)
        assert log.history == leader_log.history[6:]
        assert log.log_start_offset == 6

    def test_an_uncleanly_elected_leader_that_is_behind_makes_it_cut_there(self) -> None:
        """Its epoch means nothing to that leader, so the epochs cannot tell."""
        log = log_of([(0, 8)])
        follower = following(log, 1)
        follower.on_fetched(8, PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE), 0)
        follower.on_leader_range(0, 0, 5)
        assert log.log_end_offset == 5

    def test_a_leader_whose_log_is_wholly_below_ours_makes_it_start_again(self) -> None:
        log = emptied(20, epoch=0)
        follower = following(log, 1)
        follower.on_fetched(20, PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE), 0)
        follower.on_leader_range(3, 0, 5)
        assert (log.log_start_offset, log.log_end_offset, log.latest_epoch) == (3, 3, 0)

    def test_one_that_is_in_range_after_all_continues_where_it_was(self) -> None:
        log = log_of([(0, 5)])
        follower = following(log, 1)
        follower.on_fetched(5, PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE), 0)
        follower.on_leader_range(0, 0, 9)
        assert log.truncations == [] and follower.phase is FollowerPhase.FETCHING

    def test_a_leader_that_cannot_determine_its_range_gets_a_retry_later(self) -> None:
        follower = following(log_of([(0, 5)]), 1)
        follower.on_fetched(5, PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE), 0)
        follower.on_leader_range_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, 50)
        assert not follower.is_ready(FollowerPhase.RESETTING, 50)
        assert follower.is_ready(FollowerPhase.RESETTING, 50 + FIRST_BACKOFF_MS)


class TestEmptiedLog:
    """A log that retention or DeleteRecords has emptied: is what was before its start the leader's, too?"""

    def test_after_an_unclean_election_it_copies_the_new_leaders_records_from_their_start(self) -> None:
        """The leader lost its log, was elected uncleanly, and wrote as many records as the follower once had."""
        leader_log = log_of([(4, 17)])
        for log in (emptied(13, epoch=2), emptied(13, epoch=None)):
            catch_up(following(log, 4), leading(leader_log, 4))
            assert log.log_start_offset == 0 and log.history == leader_log.history

    def test_without_a_known_epoch_no_position_is_reported_before_the_restart(self) -> None:
        """The leader would take its start for the end of a replica that has all before it, and add it to the ISR."""
        follower = following(emptied(13, epoch=None), 4)
        assert follower.phase is FollowerPhase.RESETTING
        assert not follower.is_ready(FollowerPhase.FETCHING, 0)

    def test_in_one_history_it_continues_at_its_end(self) -> None:
        leader_log = log_of([(2, 15), (4, 2)])
        log = emptied(13, epoch=2)
        catch_up(following(log, 4), leading(leader_log, 4))
        assert log.truncations == [] and log.log_start_offset == 13 and log.history == leader_log.history[13:]

    @pytest.mark.parametrize("counted", [{"isr": (1, 2)}, {"isr": (1,), "elr": (2,)}])
    def test_in_the_isr_or_eligible_it_keeps_its_end_without_a_known_epoch(self, counted: dict[str, object]) -> None:
        """To cut it would take away what the controller counts on."""
        log = emptied(13, epoch=None)
        partition = a_partition(broker_id=2)
        partition.make_follower(registration(leader_epoch=4, **counted), log)  # type: ignore[arg-type]
        follower = Follower(partition, BACKOFF_MS)
        catch_up(follower, leading(log_of([(2, 15), (4, 2)]), 4))
        assert log.truncations == [] and log.log_start_offset == 13

    def test_one_that_begins_at_the_leaders_start_knows_the_epoch_there(self) -> None:
        leader_log = log_of([(2, 10), (4, 3)])
        leader_log.high_watermark = 13
        leader_log.maybe_increment_log_start_offset(11)
        log = emptied(13, epoch=None)
        follower = following(log, 4)
        follower.on_leader_range(11, 4, 13)
        assert follower.fetch_position() == (11, 4, 11)


def emptied(end_offset: int, epoch: int | None) -> ModelLog:
    """Return an empty log that ends there, with the last epoch it knows."""
    log = ModelLog()
    log.truncate_fully_and_start_at(end_offset)
    log.truncations.clear()
    if epoch is not None:
        log.assign_epoch_start_offset(epoch, end_offset)
    return log


@settings(max_examples=400, deadline=None)
@given(histories(), st.integers(0, 8), st.integers(0, 8), st.booleans())
def test_a_follower_gets_all_records_after_the_common_prefix_despite_deletions(
    made: tuple[History, History, History], leader_start: int, start: int, forgets: bool
) -> None:
    """Both logs may begin anywhere, the follower's where the leader's is another history (an unclean election), too."""
    prefix, leaders, followers = made
    leader_log, log = log_of(prefix + leaders, " L"), log_of(prefix + followers, " F")
    common = log_of(prefix).log_end_offset
    for each, offset in ((leader_log, leader_start), (log, start)):
        each.high_watermark = each.log_end_offset
        each.maybe_increment_log_start_offset(min(offset, each.log_end_offset))
        if each.log_start_offset == each.log_end_offset:
            each.batches.clear()
    if forgets and log.log_start_offset == log.log_end_offset:
        log.epoch_cache.clear()
    epoch = max([each for each, _ in prefix + leaders + followers], default=0) + 1
    leader = leading(leader_log, epoch)
    catch_up(following(log, epoch), leader)
    assert log.log_end_offset == leader_log.log_end_offset
    assert log.log_start_offset <= max(common, leader_log.log_start_offset)
    shared = [place for place in log.history if place[0] >= max(common, log.log_start_offset)]
    assert shared == [place for place in leader_log.history if place[0] >= max(common, log.log_start_offset)]


class TestAnswers:
    @pytest.mark.parametrize(
        "code",
        [
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.KAFKA_STORAGE_ERROR,
        ],
    )
    def test_an_error_delays_it(self, code: ErrorCode) -> None:
        follower = following(log_of([(0, 2)]), 1)
        assert follower.on_fetched(2, PartitionData(error_code=code), 100) is Outcome.DELAYED
        assert not follower.is_ready(FollowerPhase.FETCHING, 100 + FIRST_BACKOFF_MS - 1)
        assert follower.is_ready(FollowerPhase.FETCHING, 100 + FIRST_BACKOFF_MS)
        assert follower.last_error is code

    def test_the_delay_grows_up_to_the_back_off_and_starts_over_after_a_success(self) -> None:
        log = log_of([(0, 2)])
        follower = following(log, 1)
        delays = []
        for _ in range(9):
            follower.on_fetched(2, PartitionData(error_code=ErrorCode.UNKNOWN_LEADER_EPOCH), 0)
            delays.append(follower.not_before_ms)
        assert delays == [10, 20, 40, 80, 160, 320, 640, BACKOFF_MS, BACKOFF_MS]
        follower.on_fetched(2, PartitionData(records=memoryview(b"")), 0)
        follower.on_fetched(2, PartitionData(error_code=ErrorCode.UNKNOWN_LEADER_EPOCH), 0)
        assert follower.not_before_ms == FIRST_BACKOFF_MS

    def test_a_newer_leader_epoch_stops_the_fetch_until_the_metadata_arrive(self) -> None:
        follower = following(log_of([(0, 2)]), 1)
        assert follower.on_fetched(2, PartitionData(error_code=ErrorCode.FENCED_LEADER_EPOCH), 0) is Outcome.FENCED
        assert not follower.is_ready(FollowerPhase.FETCHING, 10**9)

    def test_its_lag_is_the_number_of_missing_committed_records(self) -> None:
        follower = following(log_of([(0, 2)]), 1)
        assert follower.lag is None, "no answer yet"
        for high_watermark, lag in ((1, 0), (2, 0), (5, 3)):
            follower.on_fetched(2, PartitionData(high_watermark=high_watermark, records=memoryview(b"")), 0)
            assert follower.lag == lag
        follower.on_fetched(2, PartitionData(error_code=ErrorCode.UNKNOWN_LEADER_EPOCH), 0)
        assert follower.lag == 3 and not follower.has_failed, "it is asked again"
        follower.on_fetched(2, PartitionData(error_code=ErrorCode.FENCED_LEADER_EPOCH), 0)
        assert follower.lag is None and follower.has_failed
        follower.partition.make_follower(registration(leader=3, leader_epoch=2, partition_epoch=1), follower.log)
        assert not follower.has_failed, "there is another leader, and another machine"

    def test_an_answer_to_an_offset_of_before_is_ignored(self) -> None:
        log = log_of([(0, 2)])
        follower = following(log, 1)
        assert follower.on_fetched(1, PartitionData(high_watermark=9, records=memoryview(b"")), 0) is Outcome.IGNORED
        assert log.high_watermark == 0

    def test_an_answer_that_comes_after_a_new_leader_is_ignored(self) -> None:
        log = log_of([(0, 2)])
        follower = following(log, 1)
        follower.partition.make_follower(registration(leader=3, leader_epoch=2, partition_epoch=1), log)
        assert follower.on_fetched(2, PartitionData(high_watermark=2, records=memoryview(b"")), 0) is Outcome.IGNORED

    def test_the_leaders_watermarks_are_not_taken_before_the_logs_agree(self) -> None:
        leader_log, log = log_of([(0, 3), (2, 5)]), log_of([(0, 3), (1, 4)])
        leader_log.high_watermark = 8
        leader, follower = leading(leader_log, 3), following(log, 3)
        assert one_fetch(follower, leader) is Outcome.TRUNCATED
        assert log.high_watermark == 0
        one_fetch(follower, leader)
        assert log.high_watermark == 8

    def test_records_cut_short_are_not_taken_for_nothing(self) -> None:
        source = log_of([(0, 1)])
        follower = following(ModelLog(), 1)
        with pytest.raises(KafkaError) as info:
            follower.on_fetched(0, PartitionData(records=memoryview(source.batches[0])[:30]), 0)
        assert info.value.code is ErrorCode.CORRUPT_MESSAGE

    def test_batches_of_an_epoch_after_the_fetch_are_ignored(self) -> None:
        """KAFKA-18723: what a leader of the next epoch wrote must be checked against that epoch first."""
        source = log_of([(1, 1), (2, 1)])
        log = ModelLog()
        follower = following(log, 1)
        follower.on_fetched(0, PartitionData(high_watermark=2, records=memoryview(b"".join(source.batches))), 0)
        assert log.log_end_offset == 1
