"""Images and deltas: what is replayed, what is shared, what a broker has to do about it, and what it costs."""

import sys
import tracemalloc
from types import FrameType
from typing import Any

import pytest

from kvorum.protocol.topic_partition import TopicPartition
from kvorum.quorum.image import MetadataDelta, MetadataImage, delta_between
from kvorum.quorum.image.client_quotas import entity_of, quota_record
from kvorum.quorum.image.configs import ConfigSource, ResourceType
from kvorum.quorum.image.partition_set import TopicIdPartition
from kvorum.quorum.records import (
    NO_LEADER,
    BrokerRegistrationChange,
    ClientQuota,
    Config,
    DelegationToken,
    EndTransaction,
    Feature,
    PartitionChange,
    ProducerIds,
    QuotaEntity,
    RemoveDelegationToken,
    RemoveTopic,
    RemoveUserScramCredential,
    Topic,
    UnregisterBroker,
    UserScramCredential,
)
from kvorum.quorum.steps import STEP_COUNT, finish
from tests.unit.quorum.image.image_kit import apply, broker, image_of, partition, topic, uuid

A, B = uuid(1), uuid(2)


def config(name: str, value: str | None, resource: str = "a", kind: ResourceType = ResourceType.TOPIC) -> Config:
    return Config(resource_type=kind, resource_name=resource, name=name, value=value)


def test_a_change_does_not_modify_its_base_image() -> None:
    before = image_of(topic("a", 1, 2))
    after = apply(before, [PartitionChange(topic_id=A, partition_id=1, isr=(1,))])
    assert before.topics.by_name["a"].partitions[1].isr == (1, 2, 3)
    assert after.topics.by_name["a"].partitions[1].isr == (1,)
    assert after.topics.by_id[A] is after.topics.by_name["a"]
    assert after.cluster is before.cluster, "what did not change is shared"


def test_a_partition_epoch_grows_with_every_change_a_leader_epoch_with_the_leader() -> None:
    image = image_of(topic("a", 1))
    image = apply(image, [PartitionChange(topic_id=A, partition_id=0, isr=(1, 2))])
    one = image.topics.by_id[A].partitions[0]
    assert (one.partition_epoch, one.leader_epoch) == (1, 0)
    image = apply(image, [PartitionChange(topic_id=A, partition_id=0, leader=2)])
    two = image.topics.by_id[A].partitions[0]
    assert (two.partition_epoch, two.leader_epoch, two.leader) == (2, 1, 2)
    image = apply(image, [PartitionChange(topic_id=A, partition_id=0, leader=2)])
    assert image.topics.by_id[A].partitions[0].leader_epoch == 2, "the same leader again is a new epoch"


def test_the_index_has_leaders_and_in_sync_replicas() -> None:
    image = image_of(topic("a", 1, 2), topic("b", 2, 1, (2, 3)))
    index = image.topics.index
    assert list(finish(index.partitions_with_in_isr(3))) == [(A, 0), (A, 1), (B, 0)]
    assert list(finish(index.partitions_led_by(2))) == [TopicIdPartition(B, 0)]
    image = apply(image, [PartitionChange(topic_id=A, partition_id=1, isr=(2,), leader=NO_LEADER)])
    index = image.topics.index
    assert list(finish(index.partitions_without_leader())) == [(A, 1)]
    assert list(finish(index.imbalanced_partitions())) == [(A, 1)]
    assert list(finish(index.partitions_with_in_isr(3))) == [(A, 0), (B, 0)]
    assert index.has_leaderships(1) and not index.has_leaderships(3)
    assert index.leader_count(1) == 1 and index.leader_count(3) == 0
    image = apply(image, [RemoveTopic(topic_id=A)])
    index = image.topics.index
    assert list(finish(index.partitions_without_leader())) == list(finish(index.imbalanced_partitions())) == []
    assert list(finish(index.partitions_with_in_isr(3))) == [(B, 0)]
    assert image.topics.partition_count == 1


def test_deleting_a_topic_deletes_its_configs_even_if_it_is_recreated_at_once() -> None:
    image = image_of(topic("a", 1), [config("x", "1"), config("y", "2")])
    assert dict(apply(image, [RemoveTopic(topic_id=A)]).configs.topic("a")) == {}
    again = apply(image, [RemoveTopic(topic_id=A), *topic("a", 2), config("y", "3")])
    assert dict(again.configs.topic("a")) == {"y": "3"}
    assert again.topics.by_name["a"].topic_id == B
    assert A not in again.topics.by_id


def test_a_topic_made_and_deleted_in_one_delta_leaves_nothing() -> None:
    image = image_of(topic("b", 2))
    after = apply(image, [*topic("a_x", 1), config("x", "1", "a_x"), RemoveTopic(topic_id=A)])
    assert after.same_content(image)
    assert after.topics.colliding_topic("a.x") is None


def test_names_that_differ_in_dots_and_underscores_alone_are_found() -> None:
    image = image_of(topic("a_b.c", 1), topic("plain", 2))
    assert image.topics.colliding_topic("a.b_c") == "a_b.c"
    assert image.topics.colliding_topic("pla.in") is None
    assert apply(image, [RemoveTopic(topic_id=A)]).topics.colliding_topic("a.b_c") is None


def test_records_that_do_not_fit_are_our_own_fault() -> None:
    image = image_of([broker(1, 5)], topic("a", 1))
    for record in (
        PartitionChange(topic_id=A, partition_id=7, isr=(1,)),
        Topic(name="a", topic_id=B),
        Topic(name="c", topic_id=A),
        RemoveTopic(topic_id=B),
        UnregisterBroker(broker_id=1, broker_epoch=4),
        BrokerRegistrationChange(broker_id=2, broker_epoch=5, fenced=True),
        broker(1, 4),
        EndTransaction(),
    ):
        with pytest.raises(AssertionError):
            MetadataDelta(image).replay(record)
    with pytest.raises(AssertionError):
        MetadataDelta(image).replay(broker(2, epoch=9), offset=8)


def test_a_broker_that_registers_again_replaces_itself() -> None:
    image = image_of([broker(1, 5)])
    image = apply(image, [BrokerRegistrationChange(broker_id=1, broker_epoch=5, in_controlled_shutdown=True)])
    first = image.cluster.broker(1)
    assert first is not None and not first.active and not first.fenced
    image = apply(image, [broker(1, 9, fenced=True)])
    second = image.cluster.broker(1)
    assert second is not None and second.fenced and not second.in_controlled_shutdown and second.broker_epoch == 9
    assert apply(image, [UnregisterBroker(broker_id=1, broker_epoch=9)]).cluster.broker(1) is None


def test_local_changes_are_the_brokers_own_work() -> None:
    image = image_of(topic("a", 1, 3), topic("b", 2, 1, (2, 3)))
    delta = MetadataDelta(image)
    for record in (
        PartitionChange(topic_id=A, partition_id=0, leader=2, isr=(2, 3)),
        PartitionChange(topic_id=A, partition_id=1, isr=(1, 2)),
        PartitionChange(topic_id=A, partition_id=2, replicas=(2, 3), isr=(2, 3), leader=2, directories=(A, B)),
        RemoveTopic(topic_id=B),
        *topic("b", 3, 1, (1, 2)),
    ):
        delta.replay(record)
    one = delta.topics_delta.local_changes(1)
    assert set(one.followers) == {("a", 0)}
    assert set(one.leaders) == {("a", 1), ("b", 0)}
    assert set(one.elected_leaders) == {("b", 0)}, "another ISR in the same epoch is no election"
    assert one.deletes == {TopicPartition("a", 2): A}
    two = delta.topics_delta.local_changes(2)
    assert set(two.elected_leaders) == {("a", 0), ("a", 2)}
    assert two.deletes == {("b", 0): B} and set(two.followers) == {("a", 1), ("b", 0)}
    assert two.followers[TopicPartition("b", 0)].topic_id == uuid(3)
    assert delta.topics_delta.local_changes(9).is_empty
    assert [made.name for made in delta.topics_delta.created_topics] == ["b"]


def test_a_brokers_own_config_comes_before_that_of_all_brokers() -> None:
    keys = ("log.retention.ms", "log.retention.minutes")
    everybody, own = "", "7"
    image = apply(MetadataImage(), [config(keys[0], "10", everybody, ResourceType.BROKER)])
    image = apply(image, [config(keys[0], "20", own, ResourceType.BROKER)])
    assert [(found.value, found.source) for found in image.configs.broker_values(keys, 7)] == [
        ("20", ConfigSource.DYNAMIC_BROKER_CONFIG),
        ("10", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
    ]
    other = image.configs.broker_value(keys, 8)
    assert other is not None and other.value == "10", "broker 8 has none of its own"
    assert image.configs.broker_value(("y",), 7) is None


def everything() -> MetadataImage:
    return image_of(
        [Feature(name="metadata.version", level=30), Feature(name="group.version", level=1)],
        [broker(2, 3, rack="r"), broker(1, 2, fenced=True)],
        topic("b", 2, 3),
        topic("a.c", 1, 12, (3, 1)),
        [PartitionChange(topic_id=A, partition_id=11, leader=1, isr=(1,), leader_recovery_state=1)],
        [config("x", "1", "b"), config("y", "2", "", ResourceType.BROKER)],
        [ProducerIds(broker_id=2, broker_epoch=3, next_producer_id=2000)],
        [quota("x", 1.5, user="b"), quota("y", 2, user=None), quota("x", 3, user=None, client_id="c")],
        [quota("x", 4, ip="::1"), quota("gone", 5, ip="::1"), quota("gone", None, ip="::1")],
        [scram("b", 1), scram("b", 2), scram("a", 2), scram("gone", 1), RemoveUserScramCredential(**GONE)],
        [token(1), token(2, expires=7), token(2, expires=8), token(3), RemoveDelegationToken(token_id=str(uuid(3)))],
    )


GONE = {"name": "gone", "mechanism": 1}


def scram(user: str, mechanism: int, salt: bytes = b"salt") -> UserScramCredential:
    return UserScramCredential(
        name=user, mechanism=mechanism, salt=salt, stored_key=b"stored", server_key=b"server", iterations=4096
    )


def token(number: int, expires: int = 5) -> DelegationToken:
    return DelegationToken(
        owner="User:ann",
        requester="User:bob",
        renewers=("User:a:b",),
        issue_timestamp=1,
        max_timestamp=9,
        expiration_timestamp=expires,
        token_id=str(uuid(number)),
    )


def quota(key: str, value: float | None, **entity: str | None) -> ClientQuota:
    return quota_record(entity_of((kind.replace("_", "-"), name) for kind, name in entity.items()), key, value)


def test_quotas_are_stored_per_entity_in_any_order_of_its_names() -> None:
    parts = (QuotaEntity(entity_type="user", entity_name="a"), QuotaEntity(entity_type="client-id", entity_name=None))
    image = image_of(
        [ClientQuota(entity=parts, key="x", value=1), ClientQuota(entity=parts[::-1], key="y", value=2)],
        [quota("x", 1, user="b"), quota("x", None, user="b"), quota("x", None, user="never")],
    )
    expected = entity_of([("user", "a"), ("client-id", None)])
    assert {entity: dict(found) for entity, found in image.client_quotas.entities.items()} == {
        expected: {"x": 1, "y": 2}
    }
    assert dict(image.client_quotas.of(entity_of([("user", "b")]))) == {}


def test_users_that_are_made_and_deleted_leave_the_others_alone() -> None:
    """Apache Kafka 4.3.0 loses all users of a mechanism (ScramDelta) if a deleted one comes first."""
    names = [f"user-{number}" for number in range(20)]
    for gone in names:
        rest = [name for name in names if name != gone]
        deleted = [scram(gone, 1), RemoveUserScramCredential(name=gone, mechanism=1)]
        for records in ([*deleted, *(scram(name, 1) for name in rest)], [*(scram(name, 1) for name in rest), *deleted]):
            image = apply(MetadataImage(), records)
            assert sorted(image.scram.users) == sorted(rest)
            assert image_of(image.to_records()).same_content(image)


def test_a_user_without_credentials_is_not_in_the_image() -> None:
    image = image_of([scram("a", 1), scram("a", 2), scram("b", 2)], [RemoveUserScramCredential(name="a", mechanism=2)])
    assert {user: sorted(image.scram.of(user)) for user in image.scram.users} == {"a": [1], "b": [2]}
    image = apply(image, [RemoveUserScramCredential(name="a", mechanism=1)])
    assert list(image.scram.users) == ["b"] and not image.scram.of("a")


def test_a_snapshot_replayed_makes_an_equal_image() -> None:
    image = everything()
    again = image_of(image.to_records())
    assert again.same_content(image)
    assert again.digest() == image.digest()
    assert list(again.to_records()) == list(image.to_records())
    assert again.topics.index == image.topics.index


def test_the_digest_is_the_same_in_every_process_and_sees_every_subject() -> None:
    image = everything()
    assert image.digest() == "71efe05d6d680b378e2e8ba89284a050"
    changes = [
        Feature(name="group.version", level=0),
        BrokerRegistrationChange(broker_id=1, broker_epoch=2, fenced=False),
        PartitionChange(topic_id=A, partition_id=0, isr=(3,)),
        config("x", None, "b"),
        ProducerIds(broker_id=2, broker_epoch=3, next_producer_id=3000),
        quota("x", 1.25, user="b"),
        quota("x", 1.5, user="c"),
        quota("y", None, user=None),
        scram("b", 1, b"pepper"),
        scram("c", 1),
        RemoveUserScramCredential(name="a", mechanism=2),
        token(2, expires=9),
        RemoveDelegationToken(token_id=str(uuid(1))),
    ]
    digests = {apply(image, [change]).digest() for change in changes}
    assert len(digests | {image.digest()}) == len(changes) + 1


def test_a_snapshot_over_an_older_image_is_shown_as_a_delta() -> None:
    quotas = [quota("x", 1, user="gone"), quota("y", 1, user="b"), quota("x", 1.5, user="b")]
    users = [scram("gone", 1), scram("b", 1, b"pepper"), token(1), token(4)]
    before = image_of(topic("gone", 9), [broker(9, 1)], [config("x", "1", "gone")], quotas, users)
    after = everything()
    for source, target in ((before, after), (MetadataImage(), after), (after, after)):
        delta = delta_between(source, target)
        result = delta.apply(target.offset, target.epoch)
        assert result.same_content(target) and result.digest() == target.digest()
        assert result.topics.index == target.topics.index
        assert delta.is_empty == (source is target)
    assert uuid(9) in delta_between(before, after).topics_delta.deleted_topics


def test_a_snapshot_in_which_a_topic_was_recreated_shows_its_configs_right() -> None:
    before = image_of(topic("a", 1), [config("x", "1"), config("y", "1")])
    after = image_of(topic("a", 2), [config("y", "1"), config("z", "1")])
    assert delta_between(before, after).apply(9, 9).same_content(after)


def large_image(partitions: int) -> MetadataImage:
    """Return topics of 10 partitions each, led in turn by 5 brokers."""
    delta = MetadataDelta(MetadataImage())
    for number in range(partitions // 10):
        delta.replay(Topic(name=f"topic-{number}", topic_id=uuid(number)))
        for index in range(10):
            first = (number + index) % 5
            delta.replay(partition(uuid(number), index, (first, (first + 1) % 5, (first + 2) % 5)))
    return delta.apply(0, 0)


def cost_of_one_change(image: MetadataImage) -> tuple[int, int]:
    """Return (bytecode instructions, peak bytes allocated) of a one-partition change that alters ISR and leader.

    The instructions show a loop over all topics in Python; the bytes show a copy of all of them made in C.
    """
    topic_id = uuid(7919 % len(image.topics.by_id))
    old = image.topics.by_id[topic_id].partitions[3]
    record = PartitionChange(topic_id=topic_id, partition_id=3, isr=old.isr[1:], leader=old.isr[1])
    instructions = 0

    def change() -> MetadataImage:
        delta = MetadataDelta(image)
        delta.replay(record)
        return delta.apply(1, 1)

    def count(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal instructions
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        instructions += event == "opcode"
        return count

    traced = sys.gettrace()
    sys.settrace(count)
    try:
        change()
    finally:
        sys.settrace(traced)
    tracemalloc.start()
    try:
        changed = change()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert changed.topics.by_id[topic_id].partitions[3].leader == old.isr[1]
    return instructions, peak


def test_a_one_partition_change_of_100_000_costs_at_most_twice_that_of_1_000() -> None:
    """In instructions and in bytes, which do not depend on how busy the machine is; bench/ measures seconds."""
    small, large = large_image(1_000), large_image(100_000)
    assert large.topics.partition_count == 100_000
    (instructions, allocated), (instructions_of_large, allocated_of_large) = map(cost_of_one_change, (small, large))
    assert 0 < instructions_of_large <= 2 * instructions
    assert 0 < allocated_of_large <= 2 * allocated


@pytest.mark.parametrize("count", [1, STEP_COUNT + 1], ids=["few", "many"])
def test_a_delta_that_is_released_is_freed_in_steps_and_its_images_stay_whole(count: int) -> None:
    before = image_of(record for number in range(count) for record in topic(f"t-{number}", number, 2))
    digest = before.digest()
    delta = MetadataDelta(before)
    for number in range(count):
        delta.replay(PartitionChange(topic_id=uuid(number), partition_id=0, isr=(2, 3), leader=2))
    after = delta.apply(1, 1)
    assert sum(1 for _ in delta.let_go()) >= count
    assert delta.is_empty and before.digest() == digest
    assert after.topics.index.leader_count(2) == count and after.topics.partition_count == 2 * count
    gone = MetadataDelta(after)
    for number in range(count):
        gone.replay(RemoveTopic(topic_id=uuid(number)))
    empty = gone.apply(2, 1)
    assert sum(1 for _ in gone.let_go()) >= count and gone.is_empty and not empty.topics.partition_count
