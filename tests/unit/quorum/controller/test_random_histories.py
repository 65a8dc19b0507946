"""Random commands, at random moments: what always holds, and that a snapshot with what follows it is the full replay.

The invariants of controller_kit are checked after every change. Brokers are told from the log as it is fetched: in
batches, with the markers of transactions; every prefix that ends with a change is an image that the controller had.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages import assign_replicas_to_dirs as directories
from kvorum.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kvorum.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from kvorum.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kvorum.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kvorum.protocol.messages.create_topics import CreateTopicsRequest
from kvorum.protocol.messages.delete_topics import DeleteTopicsRequest
from kvorum.protocol.messages.elect_leaders import ElectLeadersRequest
from kvorum.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kvorum.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kvorum.protocol.messages.unregister_broker import UnregisterBrokerRequest
from kvorum.quorum.controller.alter_partition import alter_partition
from kvorum.quorum.controller.assign_directories import assign_replicas_to_dirs
from kvorum.quorum.controller.change_topics import create_partitions, delete_topics
from kvorum.quorum.controller.configs_control import incremental_alter_configs
from kvorum.quorum.controller.create_topics import create_topics
from kvorum.quorum.controller.elections import PREFERRED, balance_leaders, elect_leaders, sweep_unclean
from kvorum.quorum.controller.heartbeats import BrokerHeartbeatManager
from kvorum.quorum.controller.liveness import fence_refused_broker, fence_stale_brokers
from kvorum.quorum.controller.producer_ids import allocate_producer_ids
from kvorum.quorum.controller.reassignments import alter_partition_reassignments, list_partition_reassignments
from kvorum.quorum.controller.registration import register_broker, unregister_broker
from kvorum.quorum.image import MetadataDelta, MetadataImage, TransactionBuffer, delta_between, split_into_batches
from kvorum.quorum.records import MetadataRecord, decode, encode
from kvorum.quorum.steps import finish
from tests.unit.quorum.controller.controller_kit import SESSION_MS, World, able, creatable, whole

BROKERS = st.integers(1, 5)
TOPICS = st.sampled_from(["a", "b", "c.d", "c_d"])
FLAGS = st.booleans()
BATCH_RECORDS_MAX = 4


class RecordingWorld(World):
    """Keeps the changes apart as they were decided."""

    def __init__(self, elr: int) -> None:
        self.changes: list[list[MetadataRecord]] = []
        super().__init__(elr=elr, min_isr=2, num_partitions=2, default_replication_factor=2)

    def apply(self, records: list[MetadataRecord]) -> None:
        """Commit records."""
        super().apply(records)
        if records:
            self.changes.append(records)


class Histories(RuleBasedStateMachine):
    """One history, without eligible leader replicas; test_elr.py has those with them."""

    ELR = 0

    def __init__(self) -> None:
        super().__init__()
        self.world = RecordingWorld(self.ELR)
        self.snapshots: list[tuple[int, list[bytes]]] = []

    @rule(broker_id=BROKERS)
    def register(self, broker_id: int) -> None:
        try:
            self.world.register(broker_id)
        except KafkaError as error:
            assert error.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
            assert self.world.image.cluster.is_unfenced(broker_id)

    @rule(broker_id=BROKERS)
    def decide_a_registration_that_is_dropped(self, broker_id: int) -> None:
        try:
            whole(register_broker(self.world.context(), self.world.registration(broker_id)))
        except KafkaError as error:
            assert error.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION

    @rule()
    def everybody_is_well(self) -> None:
        for broker_id in range(1, 6):
            if self.world.image.cluster.broker(broker_id) is None:
                self.world.register(broker_id)
            self.world.beat(broker_id)

    @rule(broker_id=BROKERS, want_fence=FLAGS, want_shut_down=FLAGS, behind=st.integers(0, 3))
    def beat(self, broker_id: int, want_fence: bool, want_shut_down: bool, behind: int) -> None:
        if self.world.image.cluster.broker(broker_id) is None:
            return
        answer = self.world.beat(
            broker_id,
            want_fence=want_fence,
            want_shut_down=want_shut_down,
            current_metadata_offset=self.world.next_offset - 1 - behind,
        )
        assert answer.is_fenced == (not self.world.image.cluster.is_unfenced(broker_id))
        assert not answer.should_shut_down or not self.world.image.topics.index.has_leaderships(broker_id)

    @rule(milliseconds=st.sampled_from([1, SESSION_MS // 2, SESSION_MS + 1]))
    def time_passes(self, milliseconds: int) -> None:
        self.world.now_ms += milliseconds
        self.world.duty(fence_stale_brokers)

    @rule(broker_id=BROKERS)
    def refuse_a_connection(self, broker_id: int) -> None:
        broker = self.world.image.cluster.broker(broker_id)
        if broker is not None:
            self.world.duty(lambda context: fence_refused_broker(context, broker_id, broker.broker_epoch))
            assert not self.world.image.cluster.is_unfenced(broker_id)

    @rule(broker_id=BROKERS)
    def unregister(self, broker_id: int) -> None:
        if self.world.image.cluster.broker(broker_id) is not None:
            self.world.do(unregister_broker, UnregisterBrokerRequest(broker_id=broker_id))

    @rule(name=TOPICS, partitions=st.integers(1, 6), factor=st.integers(1, 4), unclean=FLAGS)
    def create_topic(self, name: str, partitions: int, factor: int, unclean: bool) -> None:
        configs = {"unclean.leader.election.enable": "true"} if unclean else {}
        self.world.do(create_topics, CreateTopicsRequest(topics=[creatable(name, partitions, factor, configs=configs)]))

    @rule(name=TOPICS)
    def delete_topic(self, name: str) -> None:
        self.world.do(delete_topics, DeleteTopicsRequest(topic_names=[name]))

    @rule(name=TOPICS, count=st.integers(1, 9))
    def create_partitions(self, name: str, count: int) -> None:
        wanted = CreatePartitionsTopic(name=name, count=count, assignments=None)
        self.world.do(create_partitions, CreatePartitionsRequest(topics=[wanted]))

    @rule(name=TOPICS, members=st.sets(BROKERS), epoch_lag=st.sampled_from([0, 0, 0, 1]), stay=FLAGS)
    def alter_isrs(self, name: str, members: set[int], epoch_lag: int, stay: bool) -> None:
        """Have each leader of a topic ask for an ISR of these members, as far as they are replicas, and of itself."""
        topic = self.world.image.topics.topic(name)
        if topic is None:
            return
        for number, partition in topic.sorted_partitions():
            if not partition.has_leader:
                continue
            state = partition.leader_recovery_state if stay else 0
            wanted = [member for member in partition.replicas if member in members or member == partition.leader]
            data = RequestPartitionData(
                partition_index=number,
                leader_epoch=partition.leader_epoch - epoch_lag,
                partition_epoch=partition.partition_epoch,
                leader_recovery_state=state,
                new_isr_with_epochs=[BrokerState(broker_id=member) for member in wanted],
            )
            request = AlterPartitionRequest(
                broker_id=partition.leader,
                broker_epoch=self.world.epoch_of(partition.leader),
                topics=[RequestTopicData(topic_id=topic.topic_id, partitions=[data])],
            )
            answer = self.world.do(alter_partition, request).topics[0].partitions[0]
            after = self.world.partition(name, number)
            left = [member for member in wanted if member in after.replicas]  # a reassignment may be over by it
            assert answer.error_code != ErrorCode.NONE or (not epoch_lag and answer.isr == left)

    @rule(name=TOPICS, replicas=st.lists(BROKERS, max_size=4) | st.none(), resize=FLAGS)
    def reassign(self, name: str, replicas: list[int] | None, resize: bool) -> None:
        request = reassigned(name, replicas, resize)
        self.world.do(alter_partition_reassignments, request)
        listed = self.world.do(list_partition_reassignments, ListPartitionReassignmentsRequest(topics=None))
        rows = [row for topic in listed.topics for row in topic.partitions]
        assert len(rows) == len(self.world.image.topics.index.reassigning)
        assert all(row.adding_replicas or row.removing_replicas for row in rows)

    @rule(kind=st.integers(0, 1))
    def elect(self, kind: int) -> None:
        before = self.world.image
        self.world.do(elect_leaders, ElectLeadersRequest(election_type=kind, topic_partitions=None))
        if kind == PREFERRED:
            check_only_preferred_leaders_were_elected(before, self.world.image)

    @rule(resource=st.sampled_from([(2, "a"), (2, "b"), (4, "")]), operation=st.integers(0, 1), value=FLAGS)
    def alter_configs(self, resource: tuple[int, str], operation: int, value: bool) -> None:
        configs = [
            AlterableConfig(
                name="unclean.leader.election.enable", config_operation=operation, value="true" if value else "false"
            ),
            AlterableConfig(name="min.insync.replicas", config_operation=operation, value="2" if value else "1"),
        ]
        change = AlterConfigsResource(resource_type=resource[0], resource_name=resource[1], configs=configs)
        self.world.do(incremental_alter_configs, IncrementalAlterConfigsRequest(resources=[change]))

    @rule()
    def balance(self) -> None:
        before = self.world.image
        self.world.duty(balance_leaders)
        check_only_preferred_leaders_were_elected(before, self.world.image)

    @rule()
    def sweep(self) -> None:
        self.world.duty(sweep_unclean)

    @rule(broker_id=BROKERS)
    def allocate_producer_ids(self, broker_id: int) -> None:
        broker = self.world.image.cluster.broker(broker_id)
        if broker is not None:
            request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=broker.broker_epoch)
            self.world.do(allocate_producer_ids, request)

    @rule(broker_id=BROKERS)
    def say_where_replicas_lie(self, broker_id: int) -> None:
        """Assign all of a broker's replicas to its directory, another one after a disk was replaced (KIP-858)."""
        broker = self.world.image.cluster.broker(broker_id)
        if broker is None:
            return
        topics = [
            directories.RequestTopicData(
                topic_id=topic.topic_id,
                partitions=[
                    directories.RequestPartitionData(partition_index=index)
                    for index, partition in topic.partitions.items()
                    if broker_id in partition.replicas
                ],
            )
            for topic in self.world.image.topics.by_id.values()
        ]
        directory = directories.RequestDirectoryData(id_=broker.log_dirs[0], topics=topics)
        request = directories.AssignReplicasToDirsRequest(
            broker_id=broker_id, broker_epoch=broker.broker_epoch, directories=[directory]
        )
        answer = self.world.do(assign_replicas_to_dirs, request)
        rows = [row for topic in answer.directories[0].topics for row in topic.partitions]
        assert all(row.error_code == ErrorCode.NONE for row in rows)

    @rule()
    def another_controller(self) -> None:
        """Lose all soft state; what is committed stays."""
        self.world.heartbeats = BrokerHeartbeatManager(SESSION_MS)
        self.world.heartbeats.activate(self.world.image.cluster, self.world.now_ms)

    @rule()
    def snapshot(self) -> None:
        self.snapshots.append((len(self.world.changes), [encode(record) for record in self.world.image.to_records()]))

    @invariant()
    def who_could_lead_does(self) -> None:
        for key in finish(self.world.image.topics.index.partitions_without_leader()):
            _, partition = self.world.image.topics.existing(key)
            assert not any(able(self.world.image, partition, member) for member in partition.isr)

    def teardown(self) -> None:
        """Replay everything from the beginning, and from every snapshot, as a broker would."""
        world = self.world
        digest = world.image.digest()
        full = replayed(MetadataImage(), world.changes)
        assert full.digest() == digest and full.topics.index == world.image.topics.index
        for at, written in self.snapshots:
            delta = MetadataDelta(MetadataImage())
            for data in written:
                delta.replay(decode(data))
            loaded = delta.apply(at, 1)
            image = replayed(loaded, world.changes[at:])
            assert image.digest() == digest and image.same_content(world.image)
            assert image.topics.index == world.image.topics.index
            assert delta_between(loaded, image).apply(0, 0).digest() == digest
        super().teardown()


def reassigned(name: str, replicas: list[int] | None, resize: bool) -> AlterPartitionReassignmentsRequest:
    """Ask for these replicas (null: cancel) of the first partitions."""
    rows = [ReassignablePartition(partition_index=number, replicas=replicas) for number in range(3)]
    return AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=name, partitions=rows)], allow_replication_factor_change=resize
    )


def check_only_preferred_leaders_were_elected(before: MetadataImage, after: MetadataImage) -> None:
    """Whoever leads now and did not before is the first replica, stood in the ISR before, and found it as it was."""
    assert set(before.topics.by_id) == set(after.topics.by_id)
    for topic_id, topic in before.topics.by_id.items():
        for number, old in topic.partitions.items():
            new = after.topics.by_id[topic_id].partitions[number]
            if new.leader != old.leader:
                assert new.leader == new.replicas[0], f"{new}: not the preferred leader"
                assert new.leader in old.isr, f"{new}: {new.leader} was not in the ISR {old.isr}"
            if old.is_reassigning and not new.is_reassigning:
                continue  # it was over at the election before, which made the ISR
            assert (new.isr, new.leader_recovery_state) == (old.isr, old.leader_recovery_state), f"{old} became {new}"


def replayed(image: MetadataImage, changes: list[list[MetadataRecord]]) -> MetadataImage:
    """Return the image after these changes, written in small batches and fed batch by batch."""
    buffer, offset = TransactionBuffer(), 0
    for change in changes:
        before = image
        for batch in split_into_batches([encode(record) for record in change], BATCH_RECORDS_MAX, 64 * 1024):
            assert image is before, "nothing of a change is seen before its last batch"
            ready = buffer.feed_batch(offset, map(decode, batch))
            offset += len(batch)
            if ready:
                delta = MetadataDelta(image)
                for _, record in ready:
                    delta.replay(record)
                image = delta.apply(offset - 1, 1)
        assert buffer.open_since is None and image is not before
    return image


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)
