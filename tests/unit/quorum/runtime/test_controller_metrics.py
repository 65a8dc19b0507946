"""What a controller tells Prometheus, in virtual time."""

from prometheus_client.parser import text_string_to_metric_families

from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kvorum.runtime import metric_names as names
from tests.unit.quorum.runtime.runtime_kit import World

UNCLEAN = 1


def value(world: World, name: str) -> float:
    """Return the one value under this name."""
    text = world.metrics.render().decode()
    found = [
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    ]
    assert len(found) == 1, (name, found)
    return found[0]


def test_the_gauges_follow_the_metadata(world: World) -> None:
    assert value(world, names.ACTIVE_CONTROLLER_COUNT) == 0
    reported = world.metrics.render().decode().splitlines()
    assert not [line for line in reported if line.startswith((names.BROKERS, names.RAFT_OBSERVERS))], "the active one's"
    world.elect()

    async def go() -> None:
        await world.join(11, 12)
        await world.register(13)
        assert (await world.create_topic("a", partitions=3)).topics[0].error_code == ErrorCode.NONE
        assert (await world.create_topic("b", partitions=2, replicas=2)).topics[0].error_code == ErrorCode.NONE

    world.run(go())
    assert value(world, names.ACTIVE_CONTROLLER_COUNT) == 1
    assert value(world, names.ACTIVE_BROKER_COUNT) == value(world, names.BROKERS) == 2
    assert value(world, names.FENCED_BROKER_COUNT) == 1
    assert value(world, names.GLOBAL_TOPIC_COUNT) == 2
    assert value(world, names.GLOBAL_PARTITION_COUNT) == 5
    assert value(world, names.OFFLINE_PARTITIONS_COUNT) == 0
    assert value(world, names.LAST_APPLIED_RECORD_OFFSET) == world.log.high_watermark - 1
    assert value(world, names.RAFT_HIGH_WATERMARK) == world.log.high_watermark


def test_elections_are_counted_and_unclean_ones_apart(world: World) -> None:
    world.elect()

    async def leader_and_epochs() -> tuple[int, dict[int, int]]:
        epochs = await world.join(11, 12)
        await world.create_topic("t", replicas=2)
        return world.image.topics.topic("t").partitions[0].leader, epochs

    leader, epochs = world.run(leader_and_epochs())
    follower = 23 - leader
    assert value(world, names.LEADER_ELECTIONS) == 0, "a new partition's first leader was not elected"

    world.run(world.beat(leader, epochs[leader], want_fence=True))
    assert value(world, names.LEADER_ELECTIONS) == 1
    world.run(world.beat(follower, epochs[follower], want_fence=True))
    assert value(world, names.OFFLINE_PARTITIONS_COUNT) == 1
    assert value(world, names.LEADER_ELECTIONS) == 1, "to lose the leader is no election"
    world.run(world.beat(leader, epochs[leader]))
    assert value(world, names.OFFLINE_PARTITIONS_COUNT) == 1
    assert value(world, names.UNCLEAN_LEADER_ELECTIONS) == 0

    partitions = [TopicPartitions(topic="t", partitions=[0])]
    answer = world.run(world.ask(ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=partitions)))
    assert answer.error_code == ErrorCode.NONE
    assert value(world, names.OFFLINE_PARTITIONS_COUNT) == 0
    assert value(world, names.LEADER_ELECTIONS) == 2
    assert value(world, names.UNCLEAN_LEADER_ELECTIONS) == 1


def test_elections_from_the_elr_are_counted_separately_from_unclean_ones(world: World) -> None:
    world.elect()
    epochs = world.run(world.join(11))
    world.run(world.create_topic("t", replicas=1))
    world.run(world.beat(11, epochs[11], want_fence=True))
    assert value(world, names.ELIGIBLE_LEADER_ELECTIONS) == 0
    world.run(world.beat(11, epochs[11]))
    assert value(world, names.LEADER_ELECTIONS) == value(world, names.ELIGIBLE_LEADER_ELECTIONS) == 1
    assert value(world, names.UNCLEAN_LEADER_ELECTIONS) == 0


def test_fast_fencings_are_counted(world: World) -> None:
    world.elect()
    world.run(world.join(11, 12))
    assert value(world, names.FAST_FENCINGS) == 0
    world.doors.refusing = True
    world.act(lambda: world.server.on_connection_closed("broker-11"))
    world.advance(1000)
    assert value(world, names.FAST_FENCINGS) == 1
    assert value(world, names.FENCED_BROKER_COUNT) == 1


def test_brokers_whose_session_ended_are_counted(world: World) -> None:
    world.elect()
    world.run(world.join(11, 12))
    assert value(world, names.TIMED_OUT_HEARTBEATS) == 0
    world.advance(60_000)
    assert value(world, names.FENCED_BROKER_COUNT) == value(world, names.TIMED_OUT_HEARTBEATS) == 2
    assert value(world, names.CURRENT_METADATA_VERSION) == world.image.features.metadata_version > 0
