"""What is told of the metadata log's records."""

from typing import Any

import pytest

from kvorum.client.metadata_log.metadata_events import ClusterState, MetadataEventBuilder, PartitionState
from kvorum.protocol.uuids import Uuid
from kvorum.quorum import records

ID = Uuid(bytes(15) + b"\x09")


def reported(builder: MetadataEventBuilder, *written: Any) -> list[tuple[str, Any, Any]]:
    """Return (type, before, after) of what records tell, encoded as the metadata log has them."""
    import json

    found = []
    for offset, each in enumerate(written):
        found += builder.take(offset, 1, json.loads(records.encode(each)))
    return [(each.type, dict(each.before), dict(each.after)) for each in found]


def partition(leader: int = 1, isr: tuple[int, ...] = (1, 2)) -> records.Partition:
    return records.Partition(topic_id=ID, partition_id=0, replicas=(1, 2), isr=isr, leader=leader)


def change(**fields: Any) -> records.PartitionChange:
    return records.PartitionChange(topic_id=ID, partition_id=0, **fields)


def test_the_life_of_a_topic() -> None:
    builder = MetadataEventBuilder()
    assert reported(builder, records.Topic(name="t", topic_id=ID), partition()) == [
        ("topic_created", {}, {}),
        ("partition_created", {}, {"leader": 1, "isr": [1, 2], "replicas": [1, 2]}),
    ]
    assert reported(builder, change(isr=(1,)), change(isr=(1, 2)), change(leader=2)) == [
        ("isr_changed", {"isr": [1, 2]}, {"isr": [1]}),
        ("isr_changed", {"isr": [1]}, {"isr": [1, 2]}),
        ("leader_elected", {"leader": 1, "leader_epoch": 0}, {"leader": 2, "leader_epoch": 1}),
    ]
    assert reported(builder, change(leader=2, isr=(2, 1)), change(leader=-1)) == [
        ("leader_lost", {"leader": 2, "leader_epoch": 2}, {"leader": -1, "leader_epoch": 3}),
    ]
    (row,) = builder.take(9, 1, {"type": "RemoveTopic", "topic_id": str(ID)})
    assert (row.type, row.topic, row.topic_id, builder.partitions) == ("topic_deleted", "t", str(ID), {})


def test_known_events_are_not_reported_again() -> None:
    builder = MetadataEventBuilder()
    reported(builder, records.Topic(name="t", topic_id=ID), partition())
    assert reported(builder, records.Topic(name="t", topic_id=ID), partition(), change(isr=(2, 1))) == []


def test_brokers_come_and_go() -> None:
    builder = MetadataEventBuilder(fenced={1: False})

    def registered(broker: int) -> records.RegisterBroker:
        return records.RegisterBroker(broker_id=broker, broker_epoch=1, incarnation_id=ID, endpoints=())

    def fencing(broker: int, fenced: bool) -> records.BrokerRegistrationChange:
        return records.BrokerRegistrationChange(broker_id=broker, broker_epoch=1, fenced=fenced)

    def kinds(*written: Any) -> list[str]:
        return [each[0] for each in reported(builder, *written)]

    assert kinds(registered(2), fencing(2, False)) == ["broker_registered", "broker_unfenced"]
    assert kinds(fencing(2, False), fencing(1, True), fencing(1, True)) == ["broker_fenced"]
    going = records.BrokerRegistrationChange(broker_id=2, broker_epoch=1, in_controlled_shutdown=True)
    assert kinds(going) == ["broker_shutting_down"]
    assert kinds(registered(1), registered(2)) == ["broker_registered", "broker_registered", "broker_fenced"]
    assert kinds(records.UnregisterBroker(broker_id=2, broker_epoch=1)) == ["broker_unregistered"]


def test_a_reader_that_starts_in_the_middle_reports_all_and_no_unknown_previous_values() -> None:
    builder = MetadataEventBuilder(labels={str(ID): "t"})
    fenced = records.BrokerRegistrationChange(broker_id=1, broker_epoch=1, fenced=True)
    assert reported(builder, fenced, change(isr=(1,))) == [
        ("broker_fenced", {}, {}),
        ("isr_changed", {"isr": None}, {"isr": [1]}),
    ]
    (row,) = builder.take(2, 1, {"type": "PartitionChange", "topic_id": str(ID), "partition_id": 0, "leader": 2})
    assert (row.topic, row.before, row.after["leader_epoch"]) == ("t", {"leader": None, "leader_epoch": None}, None)


def test_known_cluster_data_completes_missing_records() -> None:
    builder = MetadataEventBuilder()
    reported(builder, change(isr=(1,)), records.BrokerRegistrationChange(broker_id=1, broker_epoch=1, fenced=True))
    places = {(str(ID), 0): PartitionState(2, 7, [1, 2]), (str(ID), 1): PartitionState(1, 3, [1])}
    builder.learn(ClusterState(2, {str(ID): "t"}, places, {1: False, 2: True}))
    assert builder.names == {str(ID): "t"} and builder.fenced == {1: True, 2: True}
    assert builder.partitions == {
        (str(ID), 0): PartitionState(2, 7, [1]),
        (str(ID), 1): PartitionState(1, 3, [1]),
    }
    led = MetadataEventBuilder(partitions={(str(ID), 0): PartitionState(leader=3)})
    led.learn(ClusterState(2, {}, places, {}))
    assert led.partitions[str(ID), 0] == PartitionState(3, None, [1, 2]), "the epoch is another leader's"


def test_a_change_that_is_not_whole_is_not_reported() -> None:
    builder = MetadataEventBuilder()
    reported(builder, change(leader=1))
    assert builder.complete_until(1) == 1
    builder.take(4, 1, {"type": "BeginTransaction"})
    builder.take(5, 1, {"type": "NoOp"})
    assert builder.complete_until(6) == 4
    builder.take(6, 1, {"type": "EndTransaction"})
    assert builder.complete_until(7) == 7


def test_a_change_in_parts_is_reported_when_it_is_whole_or_not_at_all() -> None:
    builder = MetadataEventBuilder()
    topic = records.Topic(name="t", topic_id=ID)
    assert reported(builder, records.BeginTransaction(), topic) == []
    assert reported(builder, records.AbortTransaction(), records.EndTransaction()) == []
    assert reported(builder, records.BeginTransaction(), topic, partition()) == []
    assert [each[0] for each in reported(builder, records.EndTransaction())] == ["topic_created", "partition_created"]


def test_a_config_is_reported_without_its_value() -> None:
    secret = records.Config(resource_type=2, resource_name="t", name="x", value="secret")
    (row,) = MetadataEventBuilder().take(
        0, 1, {"type": "Config", **{k: getattr(secret, k) for k in secret.__struct_fields__}}
    )
    assert (row.type, row.topic) == ("config_changed", "t") and "secret" not in repr(row)


def test_a_reassignment_is_reported_from_its_beginning_to_its_end() -> None:
    builder = MetadataEventBuilder()
    reported(builder, records.Topic(name="t", topic_id=ID), partition())
    begun = change(replicas=(3, 1, 2), adding_replicas=(3,), removing_replicas=(1,))
    done = change(isr=(3, 2), replicas=(3, 2), adding_replicas=(), removing_replicas=())
    assert reported(builder, begun, done, change(replicas=(2, 3))) == [
        ("reassignment_changed", {}, {"replicas": [3, 1, 2], "adding_replicas": [3], "removing_replicas": [1]}),
        ("isr_changed", {"isr": [1, 2]}, {"isr": [3, 2]}),
        ("reassignment_changed", {}, {"replicas": [3, 2], "adding_replicas": [], "removing_replicas": []}),
        ("reassignment_changed", {}, {"replicas": [2, 3]}),
    ]


def test_quotas_and_features_are_reported() -> None:
    entity = (records.QuotaEntity(entity_type="user", entity_name=None),)
    quota = records.ClientQuota(entity=entity, key="producer_byte_rate", value=1024.0)
    gone = records.ClientQuota(entity=entity, key="producer_byte_rate", remove=True)
    assert reported(MetadataEventBuilder(), quota, gone, records.Feature(name="f", level=1)) == [
        ("quota_changed", {}, {"entity": {"user": None}, "key": "producer_byte_rate", "set": True}),
        ("quota_changed", {}, {"entity": {"user": None}, "key": "producer_byte_rate", "set": False}),
        ("feature_changed", {}, {"name": "f", "level": 1}),
    ]


def test_other_records_are_passed_over_and_broken_ones_are_not() -> None:
    assert (
        reported(
            MetadataEventBuilder(), records.NoOp(), records.ProducerIds(broker_id=1, broker_epoch=1, next_producer_id=9)
        )
        == []
    )
    with pytest.raises(ValueError, match="PartitionChange"):
        MetadataEventBuilder().take(0, 1, {"type": "PartitionChange", "topic_id": "x"})
