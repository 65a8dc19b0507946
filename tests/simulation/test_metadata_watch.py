"""Each rule about committed metadata, broken once by hand and kept once just beside it."""

from collections.abc import Sequence

import pytest

from kvorum.chaos.history import HistoryWriter
from kvorum.protocol.uuids import Uuid
from kvorum.quorum.batches import encode_batches
from kvorum.quorum.image import MetadataDelta, MetadataImage
from kvorum.quorum.records import Config, MetadataRecord, NoOp, Partition, RegisterBroker, Topic
from kvorum.runtime.config import Settings
from sim.ledger import Violation
from sim.metadata_watch import MetadataWatch

ORDERS = Uuid(b"o" * 16)
TOPIC = Topic(name="orders", topic_id=ORDERS)
MIN_ISR_2 = Config(resource_type=2, resource_name="orders", name="min.insync.replicas", value="2")


def partition(
    leader: int = 1,
    isr: tuple[int, ...] = (1, 2, 3),
    *,
    leader_epoch: int = 5,
    partition_epoch: int = 10,
    elr: tuple[int, ...] = (),
    replicas: tuple[int, ...] = (1, 2, 3),
    directories: tuple[Uuid, ...] = (),
) -> Partition:
    return Partition(
        topic_id=ORDERS,
        partition_id=0,
        replicas=replicas,
        isr=isr,
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        elr=elr,
        directories=directories,
    )


def broker(broker_id: int, *, epoch: int = 1, fenced: bool = False, log_dirs: tuple[Uuid, ...] = ()) -> RegisterBroker:
    return RegisterBroker(
        broker_id=broker_id,
        broker_epoch=epoch,
        incarnation_id=Uuid(bytes(16)),
        endpoints=(),
        fenced=fenced,
        log_dirs=log_dirs,
    )


def image(offset: int, *records: MetadataRecord, brokers: Sequence[RegisterBroker] | None = None) -> MetadataImage:
    """Return an image that holds just this: three brokers where nothing else is said, and the topic."""
    registered = [broker(each) for each in (1, 2, 3)] if brokers is None else brokers
    delta = MetadataDelta(MetadataImage())
    for record in (*registered, TOPIC, *records):
        delta.replay(record)
    return delta.apply(offset, 1)


def watch() -> MetadataWatch:
    return MetadataWatch(HistoryWriter(), lambda: 0.0, Settings.of({"node.id": 1}))


BEFORE = image(1, partition(), MIN_ISR_2)
KEPT = {
    "another leader in the next epoch": image(2, partition(2, leader_epoch=6, partition_epoch=11), MIN_ISR_2),
    "no leader in the same epoch": image(2, partition(-1, partition_epoch=11), MIN_ISR_2),
    "an ISR that shrinks": image(2, partition(isr=(1, 2), partition_epoch=11), MIN_ISR_2),
    "an ELR beside a short ISR": image(2, partition(isr=(1,), elr=(2,), partition_epoch=11), MIN_ISR_2),
    "a fenced broker that nobody counts": image(
        2,
        partition(isr=(1, 2), partition_epoch=11),
        MIN_ISR_2,
        brokers=[broker(1), broker(2), broker(3, fenced=True)],
    ),
    "a fenced last member without a leader": image(
        2,
        partition(-1, isr=(3,), partition_epoch=11),
        MIN_ISR_2,
        brokers=[broker(1), broker(2), broker(3, fenced=True)],
    ),
    "a newer life of a broker": image(2, partition(), MIN_ISR_2, brokers=[broker(1), broker(2, epoch=9), broker(3)]),
}
BROKEN = {
    "SingleLeader": image(2, partition(2, partition_epoch=11), MIN_ISR_2),
    "LeaderInIsr": image(2, partition(1, isr=(2, 3), partition_epoch=11), MIN_ISR_2),
    "IsrElrDisjoint": image(2, partition(isr=(1,), elr=(1, 2), partition_epoch=11), MIN_ISR_2),
    "IsrWithinReplicas": image(2, partition(isr=(1, 4), partition_epoch=11), MIN_ISR_2),
    "ElrEmptyWithFullIsr": image(2, partition(isr=(1, 2), elr=(3,), partition_epoch=11), MIN_ISR_2),
    "MonotonicEpoch": image(2, partition(leader_epoch=4, partition_epoch=11), MIN_ISR_2),
    "NoFencedInIsr": image(
        2, partition(), MIN_ISR_2, brokers=[broker(1), broker(2), broker(3, fenced=True)]
    ),
    "MonotonicBrokerEpoch": image(2, partition(), MIN_ISR_2, brokers=[broker(1, epoch=0), broker(2), broker(3)]),
}  # fmt: skip


@pytest.mark.parametrize("after", KEPT.values(), ids=KEPT.keys())
def test_legal_histories_pass(after: MetadataImage) -> None:
    watched = watch()
    watched.check_image("controller-1", BEFORE)
    watched.check_image("controller-1", after)
    assert watched.newest is after


@pytest.mark.parametrize(("kind", "after"), BROKEN.items(), ids=BROKEN.keys())
def test_a_violation_is_reported_by_its_name(kind: str, after: MetadataImage) -> None:
    watched = watch()
    watched.check_image("controller-1", BEFORE)
    with pytest.raises(Violation) as found:
        watched.check_image("controller-1", after)
    assert found.value.kind == kind


A, B = Uuid(b"a" * 16), Uuid(b"b" * 16)


def with_directories(offset: int, made: Partition, *online: Uuid, epoch: int = 1) -> MetadataImage:
    """Return an image in which broker 1 has these directories online."""
    return image(offset, made, brokers=[broker(1, log_dirs=online, epoch=epoch), broker(2), broker(3)])


@pytest.mark.parametrize(
    ("after", "kind"),
    [
        (with_directories(2, partition(isr=(1, 2), directories=(A, A, A)), B), "InIsrWithoutDirectory"),
        (with_directories(2, partition(isr=(1,), directories=(A, A, A)), B), "InIsrWithoutDirectory"),
        (with_directories(2, partition(-1, isr=(1,), directories=(A, A, A), leader_epoch=6), B), None),
        (with_directories(2, partition(2, isr=(2, 3), directories=(A, A, A), leader_epoch=6), B), None),
        (with_directories(2, partition(isr=(1, 2), directories=(B, A, A)), B), None),
        # A new life, whose log in B has come into the ISR before it is known to lie there.
        (with_directories(2, partition(isr=(1, 2), directories=(A, A, A)), B, epoch=9), None),
    ],
)
def test_a_replica_in_a_failed_directory_leaves_isr_and_leadership(after: MetadataImage, kind: str | None) -> None:
    watched = watch()
    watched.check_image("controller-1", with_directories(1, partition(partition_epoch=9), A, B))
    if kind is None:
        watched.check_image("controller-1", after)
        return
    with pytest.raises(Violation) as found:
        watched.check_image("controller-1", after)
    assert found.value.kind == kind


def test_no_replica_in_a_failed_directory_is_elected() -> None:
    watched = watch()
    watched.check_image("controller-1", with_directories(1, partition(2, partition_epoch=9, directories=(A, A, A)), B))
    with pytest.raises(Violation) as found:
        watched.check_image("controller-1", with_directories(2, partition(1, leader_epoch=6, directories=(A, A, A)), B))
    assert found.value.kind == "LeaderInOnlineDirectory"


def test_a_change_without_a_new_partition_epoch_is_a_violation() -> None:
    watched = watch()
    watched.check_image("controller-1", BEFORE)
    with pytest.raises(Violation) as found:
        watched.check_image("controller-1", image(2, partition(isr=(1, 2)), MIN_ISR_2))
    assert found.value.kind == "MonotonicEpoch"


def test_images_of_one_offset_are_equal_on_all_nodes() -> None:
    watched = watch()
    watched.check_image("controller-1", BEFORE)
    watched.check_image("broker-2", image(1, partition(), MIN_ISR_2))
    with pytest.raises(Violation) as found:
        watched.check_image("broker-3", image(1, partition(isr=(1, 2)), MIN_ISR_2))
    assert found.value.kind == "MetadataImages"


def test_batches_of_one_offset_are_equal_on_all_nodes() -> None:
    watched = watch()
    (one,), (other,) = encode_batches([NoOp()], 1), encode_batches([NoOp()], 2)
    watched.batch("controller-1", 7, 1, one)
    watched.batch("controller-2", 7, 1, one)
    with pytest.raises(Violation) as found:
        watched.batch("controller-3", 7, 1, other)
    assert found.value.kind == "MetadataLogMatching"


def test_an_epoch_has_one_active_controller() -> None:
    watched = watch()
    watched.became_active(1, 3)
    watched.became_active(1, 3)
    watched.became_active(2, 4)
    with pytest.raises(Violation) as found:
        watched.became_active(2, 3)
    assert found.value.kind == "SingleController"
