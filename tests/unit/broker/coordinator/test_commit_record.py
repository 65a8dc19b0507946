"""The record of a committed offset: Kafka's bytes, and a content that is what reading the bytes gives."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvorum.broker.coordinator.group import replay as replaying
from kvorum.broker.coordinator.group.commit_record import (
    NO_EXPIRY,
    OFFSET_COMMIT,
    SHAPE,
    SHORT_MAX,
    VERSION,
    Commit,
    commit_record,
)
from kvorum.broker.coordinator.group.replay import replay, replay_offset
from kvorum.broker.coordinator.group.words import GroupsState, OffsetKey
from kvorum.broker.coordinator.records.codec import (
    GROUP_SHAPES,
    Decoded,
    decode_record,
    encode_key,
    encode_value,
)
from kvorum.broker.coordinator.records.offsets import OffsetCommitKey, OffsetCommitValue
from kvorum.broker.coordinator.runtime.words import NO_PRODUCER, CoordinatorRecord, Producer
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.uuids import ZERO_UUID, Uuid
from tests.unit.broker.coordinator.conftest import Run
from tests.unit.broker.coordinator.group_kit import (
    GROUP,
    NO_DELAY,
    Member,
    World,
    commit,
    commit_in_transaction,
    stable,
)
from tests.unit.broker.coordinator.runtime_kit import marker

INT32, INT64 = 2**31 - 1, 2**63 - 1
PRODUCERS = (NO_PRODUCER, Producer(5, 0))
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
COMMITS = st.builds(
    lambda group, topic, partition, **message: (group, topic, partition, OffsetCommitValue(**message)),
    NAMES,
    NAMES,
    st.integers(0, INT32),
    offset=st.integers(-1, INT64),
    leader_epoch=st.integers(-1, INT32),
    metadata=NAMES | st.integers(SHORT_MAX - 2, SHORT_MAX + 2).map("m".__mul__),
    commit_timestamp=st.integers(0, INT64),
    expire_timestamp=st.just(NO_EXPIRY) | st.integers(0, INT64),
    topic_id=st.just(ZERO_UUID) | st.binary(min_size=16, max_size=16).map(Uuid),
)
Said = tuple[str, str, int, OffsetCommitValue]


def read(record: CoordinatorRecord) -> CoordinatorRecord:
    """Return the record as whoever leads next finds it in the log."""
    return CoordinatorRecord(record.key, record.value)


@given(COMMITS)
def test_the_bytes_are_those_of_the_general_codec(message: Said) -> None:
    group, topic, partition, value = message
    record = commit_record(*message)
    assert record.key == encode_key(OFFSET_COMMIT, OffsetCommitKey(group=group, topic=topic, partition=partition))
    assert record.value == encode_value(SHAPE, value, 1 if value.expire_timestamp != NO_EXPIRY else VERSION)


@given(COMMITS)
def test_the_content_equals_the_decoded_bytes(message: Said) -> None:
    record = commit_record(*message)
    if message[3].expire_timestamp != NO_EXPIRY:
        assert record.content is None, "version 1 has no leader epoch and no topic id: only its bytes say what is kept"
        return
    assert isinstance(record.content, Commit)
    group, (topic, partition), value = record.content
    key = OffsetCommitKey(group=group, topic=topic, partition=partition)
    assert Decoded(OFFSET_COMMIT, key, value) == decode_record(GROUP_SHAPES, read(record))


@given(st.lists(COMMITS, max_size=5), st.sampled_from(PRODUCERS))
def test_replaying_decisions_and_replaying_the_log_give_the_same_state(commits: list[Said], producer: Producer) -> None:
    decided = from_log = GroupsState()
    for offset, message in enumerate(commits):
        record = commit_record(*message)
        decided = replay(decided, offset, record, producer)
        from_log = replay(from_log, offset, read(record), producer)
    assert decided == from_log
    assert len(decided.groups) == len({group for group, *_ in commits})


def test_a_tombstone_is_the_general_codecs_and_has_no_content() -> None:
    record = commit_record("g", "t", 3, None)
    assert record == CoordinatorRecord(bytes.fromhex("000100016700017400000003"), None)


@pytest.mark.parametrize(("group", "topic"), [("g" * 2**15, "t"), ("g", "t" * 2**15)])
def test_a_name_that_no_record_has_room_for_is_refused(group: str, topic: str) -> None:
    with pytest.raises(KafkaError, match="OffsetCommitKey is too long") as refused:
        commit_record(group, topic, 0, OffsetCommitValue())
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_commit_is_replayed_without_being_read_and_the_next_leader_reads_the_same(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits of a member, of a transaction that commits and of one that is open; then another broker leads."""
    read_offsets: list[int] = []

    def noted(state: GroupsState, offset: int, *rest: object) -> GroupsState:
        read_offsets.append(offset)
        return replay_offset(state, offset, *rest)  # type: ignore[arg-type]

    async def scenario() -> None:
        world = World(settings=NO_DELAY)
        partition = await world.lead()
        member = Member(world, "a")
        await stable(world, [member])
        monkeypatch.setattr(replaying, "decode_record", lambda shapes, record: pytest.fail(f"{record} is read"))
        own = asyncio.gather(*(member.commit(offset, metadata="m" * offset) for offset in (3, 200)))
        await own
        await commit_in_transaction(
            partition, Producer(5, 0), 7, member_id=member.member_id, generation=member.generation
        )
        await partition.write_marker(marker(Producer(5, 0), is_commit=True), Producer(5, 0), True)
        await commit_in_transaction(
            partition, Producer(6, 0), 9, member_id=member.member_id, generation=member.generation
        )
        monkeypatch.undo()
        before = partition.committed_state
        assert before.group_offsets(GROUP)[OffsetKey("t", 0)].offset == 7 and before.pending
        await commit(partition, 11, group_id="old", version=4, retention_ms=60_000)
        before = partition.committed_state
        monkeypatch.setattr(replaying, "replay_offset", noted)
        assert (await world.fail_over()).committed_state == before
        assert len(read_offsets) == 5

    run(scenario())
