"""A broker's life, against a controller the test plays. Waiting is done in the loop's turns, never by the clock."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from kvorum.broker.metadata import lifecycle
from kvorum.broker.metadata.lifecycle import (
    BrokerIdentity,
    BrokerLifecycleManager,
    BrokerState,
    RegistrationRefused,
)
from kvorum.network.cluster_check import WrongCluster
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kvorum.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from kvorum.protocol.uuids import Uuid

IDENTITY = BrokerIdentity(
    broker_id=4,
    cluster_id="cluster",
    incarnation_id=Uuid(b"\x04" * 16),
    listeners=(Listener(name="PLAINTEXT", host="here", port=9092),),
    features=(Feature(name="metadata.version", min_supported_version=1, max_supported_version=30),),
    rack="a",
    log_dirs=(Uuid(b"\x05" * 16),),
    previous_broker_epoch=17,
)
FAILED_DIRECTORY = Uuid(b"\x06" * 16)


class Controller:
    """Answers registrations with a growing epoch, heartbeats by what the broker asks; the test can script errors."""

    def __init__(self) -> None:
        self.registrations: list[BrokerRegistrationRequest] = []
        self.beats: list[BrokerHeartbeatRequest] = []
        self.registration_errors: list[ErrorCode | KafkaError] = []
        self.beat_errors: list[ErrorCode | KafkaError] = []
        self.shutdown_allowed = True
        self.epoch = 100

    async def register_broker(self, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
        self.registrations.append(request)
        if self.registration_errors:
            error = self.registration_errors.pop(0)
            if isinstance(error, KafkaError):
                raise error
            return BrokerRegistrationResponse(error_code=error)
        self.epoch += 1
        return BrokerRegistrationResponse(broker_epoch=self.epoch)

    async def heartbeat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        self.beats.append(request)
        if self.beat_errors:
            error = self.beat_errors.pop(0)
            if isinstance(error, KafkaError):
                raise error
            return BrokerHeartbeatResponse(error_code=error)
        caught_up = request.current_metadata_offset >= request.broker_epoch
        return BrokerHeartbeatResponse(
            is_caught_up=caught_up,
            is_fenced=request.want_fence or not caught_up,
            should_shut_down=request.want_shut_down and self.shutdown_allowed,
        )


class Setting:
    """A broker, its controller, and the metadata offset it claims."""

    def __init__(self, identity: BrokerIdentity = IDENTITY, **values: int) -> None:
        self.controller = Controller()
        self.offset = 0
        self.cordoned: list[Uuid] = []
        self.faults: list[BaseException] = []
        self.manager = BrokerLifecycleManager(
            identity,
            self.controller,
            metadata_offset=lambda: self.offset,
            cordoned_log_dirs=lambda: self.cordoned,
            heartbeat_interval_ms=values.get("interval", 60_000),
            session_timeout_ms=values.get("session", 9_000),
            registration_timeout_ms=values.get("registration", 60_000),
            on_fault=self.faults.append,
        )

    async def started(self) -> "Setting":
        """Run it until it is unfenced."""
        self.manager.start()
        await self.manager.wait_registered()
        self.offset = self.manager.broker_epoch
        self.manager.set_ready_to_unfence()
        await self.manager.wait_unfenced()
        return self


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between failed attempts the loop only takes a turn."""
    monkeypatch.setattr(lifecycle, "RETRY_BACKOFF_MS_MIN", 1)
    monkeypatch.setattr(lifecycle, "RETRY_BACKOFF_MS_MAX", 1)
    monkeypatch.setattr(lifecycle, "SHUTDOWN_BEAT_MS_MAX", 1)


def run(story: Callable[[], Awaitable[Any]]) -> Any:
    async def limited() -> Any:
        async with asyncio.timeout(60):
            return await story()

    return asyncio.run(limited())


async def until(condition: Callable[[], bool]) -> None:
    """Let the broker go on until the condition holds."""
    for _ in range(5000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never came to be")


def test_a_broker_registers_catches_up_and_is_unfenced() -> None:
    async def story() -> None:
        setting = Setting()
        manager, controller = setting.manager, setting.controller
        manager.start()
        await manager.wait_registered()
        assert manager.broker_epoch == 101
        await asyncio.sleep(0)
        assert manager.state is BrokerState.STARTING
        setting.offset = 101
        manager.metadata_moved()
        await manager.wait_caught_up()
        assert (manager.state, manager.is_fenced) == (BrokerState.RECOVERY, True)
        assert controller.beats[-1].want_fence
        manager.set_ready_to_unfence()
        await manager.wait_unfenced()
        assert (manager.state, manager.is_fenced) == (BrokerState.RUNNING, False)
        sent = controller.registrations[0]
        assert (sent.broker_id, sent.cluster_id, sent.rack, sent.previous_broker_epoch) == (4, "cluster", "a", 17)
        assert [each.port for each in sent.listeners] == [9092]
        assert {beat.broker_epoch for beat in controller.beats} == {101}
        await manager.close()

    run(story)


def test_a_registration_is_tried_until_it_is_taken() -> None:
    async def story() -> None:
        setting = Setting()
        setting.controller.registration_errors = [
            KafkaError(ErrorCode.REQUEST_TIMED_OUT),
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            ErrorCode.NOT_CONTROLLER,
        ]
        await setting.started()
        assert len(setting.controller.registrations) == 4
        assert len({each.incarnation_id for each in setting.controller.registrations}) == 1
        await setting.manager.close()

    run(story)


@pytest.mark.parametrize("code", [ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.UNSUPPORTED_VERSION])
def test_a_registration_that_can_never_be_taken_ends_the_broker(code: ErrorCode) -> None:
    async def story() -> None:
        setting = Setting()
        setting.controller.registration_errors = [code]
        setting.manager.start()
        with pytest.raises(RegistrationRefused):
            await setting.manager.wait_registered()
        assert not setting.faults, "who waits for the registration reports it"
        await setting.manager.close()

    run(story)


def test_controllers_of_another_cluster_end_a_broker_that_was_never_registered() -> None:
    async def story() -> None:
        setting = Setting()
        setting.controller.registration_errors = [KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, "all are of another")]
        setting.manager.start()
        with pytest.raises(WrongCluster, match="all are of another"):
            await setting.manager.wait_registered()
        await setting.manager.close()

    run(story)


def test_a_registered_broker_that_is_refused_later_reports_a_fault() -> None:
    async def story() -> None:
        setting = await Setting(interval=1).started()
        setting.controller.beat_errors = [ErrorCode.STALE_BROKER_EPOCH]
        setting.controller.registration_errors = [ErrorCode.INVALID_REGISTRATION]
        await until(lambda: bool(setting.faults))
        assert [type(each) for each in setting.faults] == [RegistrationRefused]
        await setting.manager.close()

    run(story)


def test_a_registration_that_is_not_taken_in_time_ends_the_broker() -> None:
    async def story() -> None:
        setting = Setting(registration=0)
        setting.controller.registration_errors = [KafkaError(ErrorCode.REQUEST_TIMED_OUT, "nobody there")]
        setting.manager.start()
        with pytest.raises(RegistrationRefused, match="was not registered"):
            await setting.manager.wait_unfenced()
        await setting.manager.close()

    run(story)


def test_a_controlled_shutdown_continues_as_soon_as_the_metadata_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    """What held it back may be over: others left, or joined an ISR."""
    monkeypatch.setattr(lifecycle, "SHUTDOWN_BEAT_MS_MAX", 60_000)

    async def story() -> None:
        setting = await Setting().started()
        setting.controller.shutdown_allowed = False
        leaving = asyncio.ensure_future(setting.manager.controlled_shutdown())
        await until(lambda: setting.controller.beats[-1].want_shut_down)
        setting.controller.shutdown_allowed = True
        setting.manager.metadata_moved()
        assert await leaving
        await setting.manager.close()

    run(story)


def test_heartbeats_that_fail_are_repeated() -> None:
    async def story() -> None:
        setting = Setting()
        setting.controller.beat_errors = [KafkaError(ErrorCode.REQUEST_TIMED_OUT), ErrorCode.NOT_CONTROLLER]
        await setting.started()
        assert len(setting.controller.registrations) == 1
        await setting.manager.close()

    run(story)


@pytest.mark.parametrize("code", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED])
def test_a_broker_whose_epoch_is_not_known_any_more_registers_again(code: ErrorCode) -> None:
    async def story() -> None:
        setting = await Setting(interval=1).started()
        setting.controller.beat_errors = [code]
        setting.offset = 1000
        await until(lambda: setting.manager.broker_epoch == 102)
        first, second = setting.controller.registrations
        assert (second.incarnation_id, second.previous_broker_epoch) == (first.incarnation_id, 101)
        count = len(setting.controller.beats)
        await until(lambda: len(setting.controller.beats) > count)
        assert setting.controller.beats[-1].broker_epoch == 102
        assert setting.manager.state is BrokerState.RUNNING
        await setting.manager.close()

    run(story)


def test_a_controlled_shutdown_waits_for_the_controllers_response() -> None:
    async def story() -> None:
        setting = await Setting().started()
        setting.controller.shutdown_allowed = False
        leaving = asyncio.ensure_future(setting.manager.controlled_shutdown())
        await until(lambda: setting.controller.beats[-1].want_shut_down)
        assert setting.manager.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
        assert not leaving.done()
        setting.controller.shutdown_allowed = True
        assert await leaving is True
        await setting.manager.close()
        count = len(setting.controller.beats)
        await asyncio.sleep(0.005)
        assert len(setting.controller.beats) == count

    run(story)


def test_a_controlled_shutdown_without_a_controller_ends_after_a_session() -> None:
    async def story() -> None:
        setting = await Setting(session=5).started()
        setting.controller.beat_errors = [KafkaError(ErrorCode.REQUEST_TIMED_OUT) for _ in range(1000)]
        assert await setting.manager.controlled_shutdown() is False
        await setting.manager.close()

    run(story)


def test_a_broker_that_was_never_unfenced_or_registered_just_goes() -> None:
    async def story() -> None:
        setting = Setting()
        assert await setting.manager.controlled_shutdown() is False
        await setting.manager.close()

    run(story)


def test_cordoned_log_directories_are_reported_at_once_but_not_before_the_metadata_exist() -> None:
    async def story() -> None:
        setting = await Setting().started()
        reported = [beat.cordoned_log_dirs for beat in setting.controller.beats]
        assert reported[0] is None and reported[-1] == []
        setting.cordoned = [FAILED_DIRECTORY]
        setting.manager.cordoned_changed()
        await until(lambda: setting.controller.beats[-1].cordoned_log_dirs == [FAILED_DIRECTORY])
        await setting.manager.close()

    run(story)


def test_a_failed_log_directory_is_reported_at_once() -> None:
    async def story() -> None:
        setting = await Setting().started()
        setting.manager.log_dir_failed(FAILED_DIRECTORY)
        await until(lambda: setting.controller.beats[-1].offline_log_dirs == [FAILED_DIRECTORY])
        await setting.manager.close()

    run(story)


def test_a_broker_that_registers_again_names_no_directory_that_has_failed() -> None:
    async def story() -> None:
        works = IDENTITY.log_dirs[0]
        setting = await Setting(identity=replace(IDENTITY, log_dirs=(works, FAILED_DIRECTORY))).started()
        setting.manager.log_dir_failed(FAILED_DIRECTORY)
        await until(lambda: setting.controller.beats[-1].offline_log_dirs == [FAILED_DIRECTORY])
        setting.controller.beat_errors = [ErrorCode.STALE_BROKER_EPOCH]
        setting.manager.log_dir_failed(FAILED_DIRECTORY)  # wakes it
        await until(lambda: len(setting.controller.registrations) == 2)
        assert [each.log_dirs for each in setting.controller.registrations] == [[works, FAILED_DIRECTORY], [works]]
        await setting.manager.close()

    run(story)
