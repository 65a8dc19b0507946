"""When the active controller looks after brokers in maintenance and such that leave, in virtual time."""

import pytest

from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from kvorum.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kvorum.quorum import broker_admin_states
from kvorum.quorum.broker_admin_states import LOOK_DELAY_MS, RETRY_MS, STEP_GAP_MS, BrokerAdminStates
from kvorum.quorum.controller import relief
from kvorum.quorum.controller.broker_admin_state import STATE_KEY, BrokerAdminState, admin_state_of
from kvorum.quorum.image.partition import PartitionRegistration
from kvorum.runtime.metric_names import DECOMMISSION_PARTITIONS_LEFT, MAINTENANCE_LEADERS_LEFT
from tests.unit.quorum.runtime.runtime_kit import World

SOON_MS = LOOK_DELAY_MS + 5


@pytest.fixture
def active(world: World) -> World:
    world.elect()
    return world


async def ask(world: World, broker_id: int, value: BrokerAdminState) -> None:
    config = AlterableConfig(name=STATE_KEY, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=4, resource_name=str(broker_id), configs=[config])
    answer = await world.ask(IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == ErrorCode.NONE, answer.responses[0].error_message


def partitions(world: World, name: str = "t") -> list[PartitionRegistration]:
    topic = world.image.topics.topic(name)
    assert topic is not None
    return [partition for _, partition in topic.sorted_partitions()]


def admin_states(world: World) -> BrokerAdminStates:
    found = world.server._broker_admin_states
    assert found is not None
    return found


def led_by(world: World, broker_id: int) -> int:
    return sum(partition.leader == broker_id for partition in partitions(world))


def begun(world: World, partitions_count: int = 4) -> dict[int, int]:
    """Brokers 11 and 12, and a topic on both; return their epochs."""

    async def go() -> dict[int, int]:
        epochs = await world.join(11, 12)
        assert (await world.create_topic("t", partitions_count, 2)).topics[0].error_code == ErrorCode.NONE
        return epochs

    return world.run(go())


def test_maintenance_moves_leaderships_away_and_its_end_returns_them(active: World) -> None:
    begun(active)
    assert led_by(active, 11) == 2
    active.run(ask(active, 11, BrokerAdminState.MAINTENANCE))
    assert admin_states(active).leaders_left() == {11: 2}
    assert f'{MAINTENANCE_LEADERS_LEFT}{{broker="11"}} 2' in active.metrics.render().decode()
    active.advance(SOON_MS)
    assert led_by(active, 11) == 0 and admin_states(active).leaders_left() == {11: 0}
    active.run(ask(active, 11, BrokerAdminState.ACTIVE))
    active.advance(3 * STEP_GAP_MS)
    assert led_by(active, 11) == 2
    assert admin_state_of(active.image.configs, 11) is None


def test_steps_leave_clients_time_between_them(active: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relief, "LEADERS_A_STEP", 1)
    begun(active, 6)
    active.run(ask(active, 11, BrokerAdminState.MAINTENANCE))
    active.advance(SOON_MS)
    assert led_by(active, 11) == 2
    active.advance(STEP_GAP_MS / 2)
    assert led_by(active, 11) == 2
    active.advance(STEP_GAP_MS)
    assert led_by(active, 11) == 1
    active.advance(2 * STEP_GAP_MS)
    assert led_by(active, 11) == 0


def test_the_next_active_controller_continues(active: World) -> None:
    begun(active)
    active.run(ask(active, 11, BrokerAdminState.MAINTENANCE))
    active.act(active.log.resign)
    active.advance(1000)
    assert led_by(active, 11) == 2, "nobody is active"
    active.elect()
    active.advance(SOON_MS)
    assert led_by(active, 11) == 0


def test_a_step_that_the_log_refuses_is_taken_again(active: World) -> None:
    begun(active)
    active.run(ask(active, 11, BrokerAdminState.MAINTENANCE))
    active.log.refuse_after = 0
    active.advance(SOON_MS)
    assert led_by(active, 11) == 2
    active.log.refuse_after = None
    active.advance(RETRY_MS)
    assert led_by(active, 11) == 0


def test_no_work_is_done_without_requests(active: World, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    monkeypatch.setattr(broker_admin_states, "move_leaders", lambda context: looked.append("leaders"))
    monkeypatch.setattr(broker_admin_states, "move_replicas", lambda context: looked.append("replicas"))
    begun(active)
    active.advance(10_000)
    assert looked == []


def test_a_broker_that_leaves_has_nothing_left_when_others_are_in_sync(active: World) -> None:
    async def in_sync(epochs: dict[int, int]) -> None:
        """Have each leader say that all replicas are in sync."""
        topic = active.image.topics.topic("t")
        assert topic is not None
        for number, partition in topic.sorted_partitions():
            isr = [BrokerState(broker_id=each, broker_epoch=epochs[each]) for each in partition.replicas]
            data = RequestPartitionData(
                partition_index=number,
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch,
                new_isr_with_epochs=isr,
            )
            await active.ask(
                AlterPartitionRequest(
                    broker_id=partition.leader,
                    broker_epoch=epochs[partition.leader],
                    topics=[RequestTopicData(topic_id=topic.topic_id, partitions=[data])],
                )
            )

    epochs = begun(active)
    epochs |= active.run(active.join(13))
    active.run(ask(active, 11, BrokerAdminState.DECOMMISSIONED))
    active.advance(SOON_MS)
    assert admin_states(active).partitions_left() == {11: 4}
    assert f'{DECOMMISSION_PARTITIONS_LEFT}{{broker="11"}} 4' in active.metrics.render().decode()
    assert all(partition.adding_replicas == (13,) for partition in partitions(active))
    active.run(in_sync(epochs))
    active.advance(SOON_MS + STEP_GAP_MS)
    assert admin_states(active).partitions_left() == {11: 0}
    assert all({*partition.replicas} == {12, 13} for partition in partitions(active))
    active.act(active.log.resign)
    assert admin_states(active).partitions_left() == {}
