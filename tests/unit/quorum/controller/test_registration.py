"""Registration and unregistration of brokers, each decision with its error code."""

import pytest

from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.broker_registration import Feature, Listener
from kvorum.protocol.messages.unregister_broker import UnregisterBrokerRequest
from kvorum.protocol.uuids import ZERO_UUID, Uuid
from kvorum.quorum.controller.features import SUPPORTED
from kvorum.quorum.controller.registration import (
    FEATURES_MAX,
    LISTENERS_MAX,
    LOG_DIRS_MAX,
    TEXT_LENGTH_MAX,
    register_broker,
    unregister_broker,
)
from kvorum.quorum.records import RECORD_SIZE_MAX, RegisterBroker, encode
from kvorum.quorum.steps import finish
from tests.unit.quorum.controller.controller_kit import SESSION_MS, World, log_dir


def test_a_broker_begins_fenced_with_the_offset_of_its_record_as_epoch() -> None:
    world = World()
    offset = world.next_offset
    assert world.register(1, rack="a") == offset
    broker = world.image.cluster.broker(1)
    assert broker is not None and broker.fenced and broker.rack == "a" and broker.log_dirs == (log_dir(1),)
    endpoint = broker.endpoint("PLAINTEXT")
    assert endpoint is not None and (endpoint.host, endpoint.port) == ("localhost", 9092)
    assert isinstance(world.log[offset], RegisterBroker)


def test_the_same_incarnation_again_keeps_its_epoch_and_is_not_fenced() -> None:
    world = World()
    request = world.registration(1)
    epoch = world.do(register_broker, request).broker_epoch
    world.beat(1)
    request.rack = "b"
    assert world.do(register_broker, request).broker_epoch == epoch
    broker = world.image.cluster.broker(1)
    assert broker is not None and not broker.fenced and broker.rack == "b"


def test_another_incarnation_is_refused_while_the_first_is_alive() -> None:
    world = World()
    world.start(1)
    first = world.epoch_of(1)
    assert world.refused(register_broker, world.registration(1)) == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    world.now_ms += SESSION_MS
    assert world.refused(register_broker, world.registration(1)) == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    world.now_ms += 1
    assert world.register(1) > first, "its session is over"


def test_another_incarnation_is_welcome_when_the_first_is_fenced() -> None:
    world = World()
    world.start(1)
    world.fence(1)
    assert world.register(1) == world.epoch_of(1)


@pytest.mark.parametrize("elr", [0, 1])
def test_a_new_incarnation_first_loses_what_the_old_one_had_in_the_same_change(elr: int) -> None:
    """Without ELR the last member of an ISR stays in it whatever became of it; with ELR it is the last known leader."""
    world = World(elr=elr)
    world.start(1, 2, 3)
    world.topic("a", (1, 2, 3))
    world.topic("b", (1,))
    world.now_ms += SESSION_MS + 1
    for broker_id in (2, 3):
        world.beat(broker_id)
    result = world.decide(register_broker, world.registration(1))
    assert world.partition("a").isr == (2, 3) and world.partition("a").leader == 2
    assert world.partition("a").leader_epoch == 1
    assert world.state("b") == ((-1, (), (), (1,)) if elr else (-1, (1,), (), ())), "it leads nothing while fenced"
    assert [type(record).__name__ for record in result.records] == ["PartitionChange"] * 2 + ["RegisterBroker"]
    assert result.response.broker_epoch == world.next_offset - 3
    world.beat(1)
    assert world.partition("a").isr == (2, 3)
    assert world.state("b") == (1, (1,), (), ()) and world.partition("b").recovering == bool(elr)


def test_a_failed_registration_keeps_the_old_incarnations_session() -> None:
    world = World()
    world.start(1)
    world.now_ms += SESSION_MS + 1
    finish(register_broker(world.context(), world.registration(1)))  # decided, and then dropped
    assert world.refused(register_broker, world.registration(1)) == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert world.heartbeats.stale_brokers(world.image.cluster, world.now_ms) == []
    assert world.heartbeats.stale_brokers(world.image.cluster, world.now_ms + SESSION_MS + 1) == [1]


def features(**levels: tuple[int, int]) -> list[Feature]:
    """Return features with their ranges, those of new clusters among them if `metadata_version` is."""
    if "metadata_version" in levels:
        levels.setdefault("eligible_leader_replicas_version", (0, 1))
        levels.setdefault("group_version", (0, 1))
        levels.setdefault("transaction_version", (0, 2))
    return [
        Feature(name=name.replace("_", "."), min_supported_version=low, max_supported_version=high)
        for name, (low, high) in levels.items()
    ]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"broker_id": -1}, ErrorCode.INVALID_REGISTRATION),
        ({"is_migrating_zk_broker": True}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": []}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [ZERO_UUID]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [Uuid(bytes(15) + b"\x63")]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [log_dir(9), log_dir(9)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [log_dir(9), log_dir(1)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [log_dir(9, i % 10) for i in range(300)]}, ErrorCode.INVALID_REGISTRATION),
        ({"listeners": [Listener(name="A"), Listener(name="A")]}, ErrorCode.INVALID_REGISTRATION),
        ({"listeners": [Listener(name=str(i)) for i in range(65)]}, ErrorCode.INVALID_REGISTRATION),
        ({"features": features(**{f"f{i}": (0, 0) for i in range(300)})}, ErrorCode.INVALID_REGISTRATION),
        ({"rack": "r" * 256}, ErrorCode.INVALID_REGISTRATION),
        ({"listeners": [Listener(name="A", host="h" * 256)]}, ErrorCode.INVALID_REGISTRATION),
        ({"features": features(**{"f" * 256: (0, 0)})}, ErrorCode.INVALID_REGISTRATION),
        ({"rack": "r" * 255}, None),
        ({"features": []}, ErrorCode.UNSUPPORTED_VERSION),
        (
            {"features": features(metadata_version=(7, 30), eligible_leader_replicas_version=(0, 0))},
            ErrorCode.UNSUPPORTED_VERSION,
        ),
        ({"features": features(metadata_version=(7, 29))}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": features(metadata_version=(31, 40))}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": features(metadata_version=(7, 30), other=(1, 2))}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": features(metadata_version=(7, 30), other=(0, 2))}, None),
        ({"log_dirs": [log_dir(9, 1), log_dir(9, 2)]}, None),
        ({"log_dirs": [Uuid(bytes(15) + b"\x64")]}, None),
    ],
)
def test_a_registration_that_makes_no_sense_is_refused(changes: dict[str, object], code: ErrorCode | None) -> None:
    world = World()
    world.start(1)
    request = world.registration(9, **changes)
    if code is None:
        world.do(register_broker, request)
        assert world.image.cluster.broker(9) is not None
    else:
        offset = world.next_offset
        assert world.refused(register_broker, request) == code
        assert world.next_offset == offset


def test_the_cluster_id_is_checked_before_the_incarnation() -> None:
    world = World()
    world.start(1)
    request = world.registration(1, cluster_id="another", log_dirs=[])
    assert world.refused(register_broker, request) == ErrorCode.INCONSISTENT_CLUSTER_ID
    request.cluster_id = world.settings.cluster_id
    assert world.refused(register_broker, request) == ErrorCode.DUPLICATE_BROKER_REGISTRATION


@pytest.mark.parametrize("elr", [0, 1])
def test_an_unregistered_broker_leaves_every_isr_except_as_the_last_member_without_elr(elr: int) -> None:
    world = World(elr=elr)
    world.start(1, 2)
    world.topic("a", (1, 2))
    world.topic("b", (1,))
    world.do(unregister_broker, UnregisterBrokerRequest(broker_id=1))
    assert world.image.cluster.broker(1) is None
    assert world.partition("a").isr == (2,) and world.partition("a").leader == 2
    assert world.state("b") == ((-1, (), (1,), (1,)) if elr else (-1, (1,), (), ()))
    request = UnregisterBrokerRequest(broker_id=1)
    assert world.refused(unregister_broker, request) == ErrorCode.BROKER_ID_NOT_REGISTERED
    world.start(1)
    assert world.partition("b").leader == 1


def test_the_largest_registration_there_can_be_fits_a_record() -> None:
    """Control characters take six bytes each in JSON."""
    world = World()
    wide = "\x01" * (TEXT_LENGTH_MAX - 3)
    known = [Feature(name=name, min_supported_version=0, max_supported_version=30) for name in SUPPORTED]
    more = FEATURES_MAX - len(known)
    request = world.registration(
        1,
        rack=wide,
        listeners=[Listener(name=f"{index:03}{wide}", host=wide, port=65535) for index in range(LISTENERS_MAX)],
        features=known + [Feature(name=f"{index:03}{wide}") for index in range(more)],
        log_dirs=[Uuid((10**6 + index).to_bytes(16, "big")) for index in range(LOG_DIRS_MAX)],
    )
    world.do(register_broker, request)
    assert len(encode(world.log[-1])) <= RECORD_SIZE_MAX
