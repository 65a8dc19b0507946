"""Fetch sessions: epochs, what is remembered, what is told, and who makes room for whom (KIP-227)."""

from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvorum.broker.fetch_session import INT32_MAX, FetchContext, FetchSessionCache, next_epoch
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from kvorum.protocol.uuids import ZERO_UUID, Uuid

FOO, BAR = Uuid(b"\1" * 16), Uuid(b"\2" * 16)
NAMES = {FOO: "foo", BAR: "bar"}
EVICTION_MS = 120_000


def cache(slots: int = 10) -> FetchSessionCache:
    return FetchSessionCache(slots, EVICTION_MS, Random(7))


def request(
    requested: Mapping[tuple[str, int], int] | None = None,
    *,
    session_id: int = 0,
    epoch: int = 0,
    forgotten: tuple[tuple[str, int], ...] = (),
) -> FetchRequest:
    """A fetch of {(topic, partition): offset}, by id and by name at once: the version decides which counts."""
    ids = {name: topic_id for topic_id, name in NAMES.items()}
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[
            FetchTopic(
                topic=name,
                topic_id=ids.get(name, Uuid(name.encode().ljust(16))),
                partitions=[FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=100)],
            )
            for (name, index), offset in (requested or {}).items()
        ],
        forgotten_topics_data=[
            ForgottenTopic(topic=name, topic_id=ids[name], partitions=[index]) for name, index in forgotten
        ],
    )


def open_context(
    sessions: FetchSessionCache,
    requested: FetchRequest,
    *,
    version: int = 17,
    now_ms: int = 0,
    follower: bool = False,
    names: Mapping[Uuid, str] = NAMES,
) -> FetchContext:
    return sessions.context(requested, version, is_from_follower=follower, topic_name=names.get, now_ms=now_ms)


def row(index: int, high_watermark: int = 0, records: bytes = b"", **others: object) -> PartitionData:
    return PartitionData(
        partition_index=index,
        high_watermark=high_watermark,
        log_start_offset=0,
        records=(records,) if records else (),
        **others,  # type: ignore[arg-type]
    )


def answer(context: FetchContext, high_watermark: int = 0, now_ms: int = 0) -> FetchResponse:
    """The same row for every target."""
    return context.respond([(each, row(each.partition, high_watermark)) for each in context.targets], now_ms)


def reported(response: FetchResponse) -> list[tuple[str, int]]:
    return [(topic.topic, each.partition_index) for topic in response.responses for each in topic.partitions]


def wanted(context: FetchContext) -> list[tuple[str, int, int]]:
    return [(each.topic, each.partition, each.fetch_offset) for each in context.targets]


def a_session(sessions: FetchSessionCache, requested: Mapping[tuple[str, int], int], **how: object) -> int:
    return answer(open_context(sessions, request(requested), **how)).session_id  # type: ignore[arg-type]


class TestFullRequests:
    @pytest.mark.parametrize("version", [12, 17])
    def test_a_new_session_gets_all_partitions(self, version: int) -> None:
        sessions = cache()
        context = open_context(sessions, request({("foo", 0): 5, ("bar", 1): 6}), version=version)
        assert wanted(context) == [("foo", 0, 5), ("bar", 1, 6)]
        assert {each.topic_id for each in context.targets} == ({FOO, BAR} if version >= 13 else {ZERO_UUID})
        response = answer(context)
        assert response.session_id > 0 and response.error_code == 0
        assert reported(response) == [("foo", 0), ("bar", 1)]
        assert len(sessions) == 1 and sessions.cached_partitions == 2

    def test_a_client_without_sessions_gets_none(self) -> None:
        sessions = cache()
        response = answer(open_context(sessions, request({("foo", 0): 0}, epoch=-1)))
        assert response.session_id == 0 and reported(response) == [("foo", 0)]
        assert len(sessions) == 0

    @pytest.mark.parametrize(("epoch", "left"), [(0, 1), (-1, 0)])
    def test_one_that_names_its_session_closes_it(self, epoch: int, left: int) -> None:
        sessions = cache()
        session_id = a_session(sessions, {("foo", 0): 0})
        response = answer(open_context(sessions, request({("foo", 0): 0}, session_id=session_id, epoch=epoch)))
        assert len(sessions) == left and response.session_id != session_id
        with pytest.raises(KafkaError):
            open_context(sessions, request(session_id=session_id, epoch=1))

    def test_the_last_of_duplicate_partitions_counts(self) -> None:
        requested = request({("foo", 0): 1})
        requested.topics += request({("foo", 0): 9}).topics
        assert wanted(open_context(cache(), requested)) == [("foo", 0, 9)]


class TestIncrementalRequests:
    def test_unnamed_partitions_are_kept_and_unchanged_ones_omitted(self) -> None:
        sessions = cache()
        session_id = a_session(sessions, {("foo", 0): 0, ("bar", 0): 0})
        context = open_context(sessions, request({("foo", 0): 3}, session_id=session_id, epoch=1))
        assert wanted(context) == [("foo", 0, 3), ("bar", 0, 0)]
        response = context.respond([(context.targets[0], row(0, 4)), (context.targets[1], row(0, 0))], 0)
        assert (response.session_id, reported(response)) == (session_id, [("foo", 0)])
        context = open_context(sessions, request(session_id=session_id, epoch=2))
        assert reported(answer(context, high_watermark=4)) == [("bar", 0)]

    @pytest.mark.parametrize(
        "news",
        [
            row(0, 0, b"records"),
            row(0, 1),
            row(0, 0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
            row(0, 0, diverging_epoch=EpochEndOffset(epoch=3, end_offset=1)),
            row(0, 0, preferred_read_replica=2),
        ],
        ids=["records", "high watermark", "error", "diverging epoch", "preferred replica"],
    )
    def test_each_kind_of_news_is_reported(self, news: PartitionData) -> None:
        sessions = cache()
        session_id = a_session(sessions, {("foo", 0): 0})
        context = open_context(sessions, request(session_id=session_id, epoch=1))
        assert reported(context.respond([(context.targets[0], news)], 0)) == [("foo", 0)]

    def test_a_moved_log_start_is_reported(self) -> None:
        sessions = cache()
        session_id = a_session(sessions, {("foo", 0): 0})
        context = open_context(sessions, request(session_id=session_id, epoch=1))
        moved = row(0)
        moved.log_start_offset = 7
        assert reported(context.respond([(context.targets[0], moved)], 0)) == [("foo", 0)]

    def test_after_an_error_the_same_high_watermark_is_reported_again(self) -> None:
        sessions = cache()
        session_id = a_session(sessions, {("foo", 0): 0})
        context = open_context(sessions, request(session_id=session_id, epoch=1))
        context.respond([(context.targets[0], row(0, -1, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER))], 0)
        context = open_context(sessions, request(session_id=session_id, epoch=2))
        assert reported(answer(context)) == [("foo", 0)]

    def test_after_a_divergence_the_same_high_watermark_is_reported_again(self) -> None:
        sessions = cache()
        session_id = a_session(sessions, {("foo", 0): 9})
        context = open_context(sessions, request(session_id=session_id, epoch=1))
        parted = row(0, 7, diverging_epoch=EpochEndOffset(epoch=3, end_offset=4))
        context.respond([(context.targets[0], parted)], 0)
        context = open_context(sessions, request({("foo", 0): 4}, session_id=session_id, epoch=2))
        assert reported(answer(context, 7)) == [("foo", 0)], "who truncates takes no watermark from the same answer"

    def test_partitions_come_and_go(self) -> None:
        sessions = cache()
        session_id = a_session(sessions, {("foo", 0): 0, ("foo", 1): 0})
        change = request({("bar", 2): 4}, session_id=session_id, epoch=1, forgotten=(("foo", 0), ("bar", 9)))
        context = open_context(sessions, change)
        assert wanted(context) == [("foo", 1, 0), ("bar", 2, 4)]
        assert reported(answer(context)) == [("bar", 2)]

    def test_a_session_with_nothing_left_ends(self) -> None:
        sessions = cache()
        session_id = a_session(sessions, {("foo", 0): 0})
        context = open_context(sessions, request(session_id=session_id, epoch=1, forgotten=(("foo", 0),)))
        response = answer(context)
        assert (response.session_id, reported(response), len(sessions)) == (0, [], 0)

    def test_partitions_with_returned_records_go_to_the_end_of_the_queue(self) -> None:
        sessions = cache()
        session_id = a_session(sessions, {("foo", 0): 0, ("foo", 1): 0, ("foo", 2): 0})
        for epoch in (1, 2, 3):
            context = open_context(sessions, request(session_id=session_id, epoch=epoch))
            assert context.targets[0].partition == epoch - 1
            context.respond(
                [
                    (each, row(each.partition, 0, b"x" if index == 0 else b""))
                    for index, each in enumerate(context.targets)
                ],
                0,
            )

    def test_neighbouring_rows_of_a_topic_share_an_entry(self) -> None:
        sessions = cache()
        response = answer(open_context(sessions, request({("foo", 0): 0, ("foo", 1): 0, ("bar", 0): 0})))
        assert [len(topic.partitions) for topic in response.responses] == [2, 1]


class TestTopicIds:
    def test_an_id_that_is_not_known_yet_is_looked_up_again(self) -> None:
        sessions = cache()
        names: dict[Uuid, str] = {}
        context = open_context(sessions, request({("foo", 0): 0}), names=names)
        assert context.targets[0].topic == ""
        unknown = row(0, -1, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
        response = context.respond([(context.targets[0], unknown)], 0)
        assert response.responses[0].topic_id == FOO
        names[FOO] = "foo"
        context = open_context(sessions, request(session_id=response.session_id, epoch=1), names=names)
        assert context.targets[0].topic == "foo"

    def test_a_name_stays_with_the_id_it_was_first_known_for(self) -> None:
        """The topic was made anew under its name: the replica's other id will tell (INCONSISTENT_TOPIC_ID)."""
        sessions = cache()
        session_id = a_session(sessions, {("foo", 0): 0})
        context = open_context(sessions, request(session_id=session_id, epoch=1), names={BAR: "foo"})
        assert (context.targets[0].topic, context.targets[0].topic_id) == ("foo", FOO)

    @pytest.mark.parametrize(("first", "then"), [(12, 13), (13, 12)])
    def test_ids_and_names_do_not_mix(self, first: int, then: int) -> None:
        sessions = cache()
        session_id = answer(open_context(sessions, request({("foo", 0): 0}), version=first)).session_id
        with pytest.raises(KafkaError) as info:
            open_context(sessions, request(session_id=session_id, epoch=1), version=then)
        assert info.value.code is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


class TestEpochs:
    def test_an_unknown_session_gets_an_error(self) -> None:
        with pytest.raises(KafkaError) as info:
            open_context(cache(), request(session_id=5, epoch=1))
        assert info.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    @pytest.mark.parametrize("epoch", [2, 3, -5])
    def test_any_but_the_next_epoch_is_refused_and_changes_nothing(self, epoch: int) -> None:
        sessions = cache()
        session_id = a_session(sessions, {("foo", 0): 0})
        with pytest.raises(KafkaError) as info:
            open_context(sessions, request({("foo", 0): 9}, session_id=session_id, epoch=epoch))
        assert info.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH
        assert wanted(open_context(sessions, request(session_id=session_id, epoch=1))) == [("foo", 0, 0)]

    def test_of_two_requests_at_once_the_earlier_is_answered_that_it_is_a_stray(self) -> None:
        sessions = cache()
        session_id = a_session(sessions, {("foo", 0): 0})
        earlier = open_context(sessions, request(session_id=session_id, epoch=1))
        later = open_context(sessions, request(session_id=session_id, epoch=2))
        response = answer(earlier, 9)
        assert (response.error_code, reported(response)) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, [])
        assert reported(answer(later, 9)) == [("foo", 0)]

    def test_epoch_1_follows_the_largest_epoch(self) -> None:
        assert next_epoch(INT32_MAX) == 1


class TestEviction:
    def test_a_full_cache_of_young_sessions_refuses_a_consumer_but_still_answers_it(self) -> None:
        sessions = cache(slots=1)
        a_session(sessions, {("foo", 0): 0})
        response = answer(open_context(sessions, request({("foo", 0): 0, ("bar", 0): 0})), now_ms=EVICTION_MS)
        assert response.session_id == 0 and len(reported(response)) == 2

    def test_one_that_was_not_used_for_long_goes(self) -> None:
        sessions = cache(slots=2)
        old = a_session(sessions, {("foo", 0): 0, ("foo", 1): 0, ("foo", 2): 0}, follower=True)
        used = a_session(sessions, {("foo", 0): 0})
        answer(open_context(sessions, request(session_id=used, epoch=1), now_ms=EVICTION_MS))
        response = answer(open_context(sessions, request({("bar", 0): 0})), now_ms=EVICTION_MS + 1)
        assert response.session_id > 0 and sessions.evictions == 1
        open_context(sessions, request(session_id=used, epoch=2))
        with pytest.raises(KafkaError):
            open_context(sessions, request(session_id=old, epoch=1))

    def test_a_follower_displaces_a_consumer_however_young(self) -> None:
        sessions = cache(slots=1)
        a_session(sessions, {("foo", 0): 0, ("foo", 1): 0})
        response = answer(open_context(sessions, request({("bar", 0): 0}), follower=True))
        assert response.session_id > 0

    def test_a_consumer_never_displaces_a_follower_in_use(self) -> None:
        sessions = cache(slots=1)
        follower = a_session(sessions, {("foo", 0): 0}, follower=True)
        now_ms = EVICTION_MS * 2
        answer(open_context(sessions, request(session_id=follower, epoch=1), now_ms=now_ms))
        response = answer(open_context(sessions, request({("bar", 0): 0, ("bar", 1): 0})), now_ms=now_ms)
        assert response.session_id == 0

    @pytest.mark.parametrize(("partitions", "succeeds"), [(1, False), (2, False), (3, True)])
    def test_a_larger_session_displaces_a_smaller_one_that_is_no_longer_young(
        self, partitions: int, succeeds: bool
    ) -> None:
        sessions = cache(slots=1)
        session_id = a_session(sessions, {("foo", 0): 0, ("foo", 1): 0})
        now_ms = EVICTION_MS + 1
        answer(open_context(sessions, request(session_id=session_id, epoch=1), now_ms=now_ms))
        requested = {("bar", index): 0 for index in range(partitions)}
        response = answer(open_context(sessions, request(requested)), now_ms=now_ms)
        assert (response.session_id > 0) is succeeds

    def test_a_cache_without_slots_has_no_sessions(self) -> None:
        assert a_session(cache(slots=0), {("foo", 0): 0}) == 0


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.dictionaries(
                st.tuples(st.sampled_from(["foo", "bar"]), st.integers(0, 3)), st.integers(0, 9), max_size=4
            ),
            st.lists(st.tuples(st.sampled_from(["foo", "bar"]), st.integers(0, 3)), max_size=2),
            st.dictionaries(
                st.tuples(st.sampled_from(["foo", "bar"]), st.integers(0, 3)), st.integers(0, 3), max_size=8
            ),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_incremental_responses_are_equivalent_to_full_ones(
    rounds: list[tuple[dict[tuple[str, int], int], list[tuple[str, int]], dict[tuple[str, int], int]]],
) -> None:
    """Whatever is asked for, forgotten and changed: high watermarks put together from the answers are the true ones."""
    sessions = cache()
    truth: dict[tuple[str, int], int] = {}
    known: dict[tuple[str, int], int] = {}
    expected: dict[tuple[str, int], int] = {("foo", 0): 0}
    requested, session_id, epoch = request(expected), 0, 0
    for change, forgotten, watermarks in rounds:
        context = open_context(sessions, requested)
        assert {(topic, index): offset for topic, index, offset in wanted(context)} == expected
        response = context.respond(
            [(each, row(each.partition, truth.get((each.topic, each.partition), 0))) for each in context.targets], 0
        )
        for topic in response.responses:
            for each in topic.partitions:
                known[topic.topic, each.partition_index] = each.high_watermark
        assert {key: known[key] for key in expected} == {key: truth.get(key, 0) for key in expected}
        session_id, epoch = response.session_id, next_epoch(epoch)
        truth.update(watermarks)
        dropped = [key for key in forgotten if key not in change and key in expected]
        if len(set(expected) - set(dropped)) == 0 and not change:
            dropped = []
        expected = {**{key: offset for key, offset in expected.items() if key not in dropped}, **change}
        known = {key: mark for key, mark in known.items() if key in expected}
        requested = request(change, session_id=session_id, epoch=epoch, forgotten=tuple(dropped))
