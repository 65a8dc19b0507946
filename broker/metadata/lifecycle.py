"""Life cycle of a broker in the cluster: registered, caught up, unfenced, shut down.

    STARTING --registered and caught up--> RECOVERY --unfenced--> RUNNING --> PENDING_CONTROLLED_SHUTDOWN -->
    SHUTTING_DOWN
       |________________________________________|____________________________________________________________^

STARTING    registers until the controller accepts it; heartbeats request to stay fenced until it has caught up.
RECOVERY    caught up with the metadata; heartbeats request unfencing as soon as `set_ready_to_unfence` was called.
RUNNING     unfenced: clients see it. Missing heartbeats can fence and unfence it without a change of this state.
PENDING_CONTROLLED_SHUTDOWN   heartbeats request a shutdown; the controller moves leaderships away, then permits it.
SHUTTING_DOWN                 no more requests are sent.

Invariants: a heartbeat carries the epoch of the last registration; the incarnation id never changes in a process; the
state only moves forward. Source: KIP-631, Kafka's BrokerLifecycleManager. Different: a broker whose epoch the
controller no longer knows registers again (Kafka waits for a restart), and a controlled shutdown ends when no
controller was reached for a whole session timeout, since the broker is fenced by then (Kafka waits five minutes).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

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
from kvorum.runtime.logs import get_logger

log = get_logger("broker")

RETRY_BACKOFF_MS_MIN: Final = 100
RETRY_BACKOFF_MS_MAX: Final = 2_000
"""Between failed registrations and heartbeats, doubled from the first to the second (Kafka: 100 to 60,000)."""
CONTROLLED_SHUTDOWN_TIMEOUT_MS: Final = 300_000
"""The longest a controlled shutdown takes, as in Kafka: then the broker goes, its missing heartbeats fence it."""
SHUTDOWN_BEAT_MS_MAX: Final = 200
"""Heartbeat interval during a controlled shutdown, so that it does not wait for a heartbeat."""
NO_BROKER_EPOCH: Final = -1

REGISTER_AGAIN: Final = (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED)
"""Heartbeat errors that need a new registration: the controller has no registration of this epoch."""
FATAL: Final = (
    ErrorCode.INCONSISTENT_CLUSTER_ID,
    ErrorCode.INVALID_REGISTRATION,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.INVALID_REQUEST,
)
"""Registration errors that a retry cannot resolve."""


class BrokerState(Enum):
    """See the table above; the numbers are those of Kafka's BrokerState metric."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


WAITING_FOR_METADATA: Final = (
    BrokerState.STARTING,
    BrokerState.RECOVERY,
    BrokerState.PENDING_CONTROLLED_SHUTDOWN,
)


class RegistrationRefused(Exception):
    """The controller will never take this broker, or did not in initial.broker.registration.timeout.ms."""


class LifecycleController(Protocol):
    """The active controller, as far as this module needs it."""

    async def register_broker(self, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
        """Send to the active controller once. Raises KafkaError if it cannot be reached in time."""
        ...

    async def heartbeat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        """Send to the active controller once. Raises KafkaError if it cannot be reached in time."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerIdentity:
    """Registration data of a broker. Listeners are the advertised ones, ports resolved."""

    broker_id: int
    cluster_id: str
    incarnation_id: Uuid
    listeners: tuple[Listener, ...]
    features: tuple[Feature, ...]
    rack: str | None
    log_dirs: tuple[Uuid, ...]
    previous_broker_epoch: int
    """The epoch written by the last clean shutdown; -1 after an unclean one (KIP-966)."""


class BrokerLifecycleManager:
    """Runs the states above in one task."""

    __slots__ = (
        "_caught_up",
        "_controller",
        "_cordoned_log_dirs",
        "_heartbeat_interval_ms",
        "_identity",
        "_last_contact",
        "_metadata_offset",
        "_offline_log_dirs",
        "_on_fault",
        "_ready_to_unfence",
        "_registered",
        "_registration_timeout_ms",
        "_session_timeout_ms",
        "_shutdown_allowed",
        "_task",
        "_unfenced",
        "_wake",
        "broker_epoch",
        "is_fenced",
        "state",
    )

    def __init__(
        self,
        identity: BrokerIdentity,
        controller: LifecycleController,
        *,
        metadata_offset: Callable[[], int],
        cordoned_log_dirs: Callable[[], list[Uuid]] = list,
        heartbeat_interval_ms: int,
        session_timeout_ms: int,
        registration_timeout_ms: int,
        on_fault: Callable[[BaseException], None],
    ) -> None:
        """`metadata_offset` returns the last metadata offset that this broker has applied.

        `cordoned_log_dirs` returns the online directories that get no new replicas (KIP-1066). `on_fault` is called
        when a registered broker cannot continue: RegistrationRefused, or a bug. Before the first registration
        `wait_registered` raises it.
        """
        loop = asyncio.get_running_loop()
        self._identity = identity
        self._controller = controller
        self._metadata_offset = metadata_offset
        self._cordoned_log_dirs = cordoned_log_dirs
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._session_timeout_ms = session_timeout_ms
        self._registration_timeout_ms = registration_timeout_ms
        self._on_fault = on_fault
        self._registered: asyncio.Future[None] = loop.create_future()
        self._caught_up: asyncio.Future[None] = loop.create_future()
        self._unfenced: asyncio.Future[None] = loop.create_future()
        self._shutdown_allowed: asyncio.Future[None] = loop.create_future()
        self._wake = asyncio.Event()
        self._ready_to_unfence = False
        self._offline_log_dirs: set[Uuid] = set()
        self._task: asyncio.Task[None] | None = None
        self._last_contact = loop.time()
        self.state = BrokerState.NOT_RUNNING
        self.broker_epoch = NO_BROKER_EPOCH
        self.is_fenced = True

    def start(self) -> None:
        """Start to register."""
        assert self._task is None, "started once"
        self.state = BrokerState.STARTING
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(self._on_done)

    async def wait_registered(self) -> None:
        """Wait until the controller took the registration. Raises RegistrationRefused, WrongCluster."""
        await asyncio.shield(self._registered)

    async def wait_caught_up(self) -> None:
        """Wait until this broker's metadata has reached its own registration. Raises RegistrationRefused."""
        await asyncio.shield(self._caught_up)

    async def wait_unfenced(self) -> None:
        """Wait until the broker was unfenced for the first time. Raises RegistrationRefused."""
        await asyncio.shield(self._unfenced)

    def set_ready_to_unfence(self) -> None:
        """Request to be unfenced from now on: the logs are recovered, the listeners are open."""
        self._ready_to_unfence = True
        self._wake.set()

    def metadata_moved(self) -> None:
        """Send a heartbeat now if the controller waits for this broker's metadata; a start is not delayed then.

        The same for a controlled shutdown, which may wait for this change. If all brokers stop at once, the quorum may
        have stopped one interval later.
        """
        if self.state in WAITING_FOR_METADATA and self.broker_epoch != NO_BROKER_EPOCH:
            self._wake.set()

    def log_dir_failed(self, directory_id: Uuid) -> None:
        """Report at once to the controller that a log directory is offline (KIP-858)."""
        self._offline_log_dirs.add(directory_id)
        self._wake.set()

    def cordoned_changed(self) -> None:
        """Report the cordoned log directories at once to the controller."""
        if self.state is BrokerState.RUNNING:
            self._wake.set()

    async def controlled_shutdown(self) -> bool:
        """Request a controlled shutdown and wait for the controller; False if it is unreachable or too slow."""
        if self.state not in (BrokerState.RECOVERY, BrokerState.RUNNING):
            return False
        self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
        self._last_contact = asyncio.get_running_loop().time()
        self._wake.set()
        await asyncio.wait((self._shutdown_allowed,), timeout=CONTROLLED_SHUTDOWN_TIMEOUT_MS / 1000)
        return self._shutdown_allowed.done() and not self._shutdown_allowed.cancelled()

    async def close(self) -> None:
        """Send nothing more."""
        self.state = BrokerState.SHUTTING_DOWN
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        for future in (self._registered, self._caught_up, self._unfenced, self._shutdown_allowed):
            future.cancel()

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        """Report the end of the task to its waiters."""
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        waiting = [each for each in (self._registered, self._caught_up, self._unfenced) if not each.done()]
        for future in waiting:
            future.set_exception(error)
            future.exception()  # retrieved: not every future has a waiter
        if self._registered not in waiting:  # the start of the broker waits for it and reports the error
            self._on_fault(error)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        await self._register(deadline=loop.time() + self._registration_timeout_ms / 1000)
        failures = 0
        while self.state is not BrokerState.SHUTTING_DOWN:
            self._wake.clear()
            try:
                immediately = await self._beat()
                failures = 0
                delay_ms = 0 if immediately else self._heartbeat_interval_ms
                if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
                    delay_ms = min(delay_ms, SHUTDOWN_BEAT_MS_MAX)
            except KafkaError as error:
                log.warning("heartbeat failed", broker_id=self._identity.broker_id, reason=error)
                if error.code in REGISTER_AGAIN and self.state is not BrokerState.PENDING_CONTROLLED_SHUTDOWN:
                    await self._register(deadline=None)
                delay_ms = min(RETRY_BACKOFF_MS_MAX, self._heartbeat_interval_ms, RETRY_BACKOFF_MS_MIN << failures)
                failures = min(failures + 1, 16)
                self._give_up_shutdown()
                await asyncio.sleep(delay_ms / 1000)
                continue
            await self._pause(delay_ms / 1000)

    async def _pause(self, seconds: float) -> None:
        """Wait for the next heartbeat, or until one is due earlier."""
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    def _give_up_shutdown(self) -> None:
        silence_ms = (asyncio.get_running_loop().time() - self._last_contact) * 1000
        if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN and silence_ms >= self._session_timeout_ms:
            log.warning("controlled shutdown without a controller", broker_id=self._identity.broker_id)
            self._shutdown_allowed.cancel()

    async def _register(self, deadline: float | None) -> None:
        """Register until it is taken. Raises RegistrationRefused; without a deadline only a fatal answer ends it."""
        loop = asyncio.get_running_loop()
        who = self._identity
        previous = who.previous_broker_epoch if self.broker_epoch == NO_BROKER_EPOCH else self.broker_epoch
        # Replicas in a failed directory must not be elected. If no directory is left, the process is about to end.
        online = [each for each in who.log_dirs if each not in self._offline_log_dirs] or list(who.log_dirs)
        request = BrokerRegistrationRequest(
            broker_id=who.broker_id,
            cluster_id=who.cluster_id,
            incarnation_id=who.incarnation_id,
            listeners=list(who.listeners),
            features=list(who.features),
            rack=who.rack,
            log_dirs=online,
            previous_broker_epoch=previous,
        )
        backoff_ms, logged = RETRY_BACKOFF_MS_MIN, ""
        while True:
            try:
                response = await self._controller.register_broker(request)
                code = ErrorCode(response.error_code)
                if code is ErrorCode.NONE:
                    break
                reason = code.name
                if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                    reason += ": the controllers need this broker's principal in super.users"
                if code in FATAL:
                    raise RegistrationRefused(
                        f"the controller rejected the registration of broker {who.broker_id}: {reason}"
                    )
            except KafkaError as error:
                if error.code is ErrorCode.INCONSISTENT_CLUSTER_ID:
                    raise WrongCluster(error.message or error.code.name) from error
                reason = str(error)
            if deadline is not None and loop.time() >= deadline:
                waited = f"initial.broker.registration.timeout.ms ({self._registration_timeout_ms}) has elapsed"
                raise RegistrationRefused(f"broker {who.broker_id} was not registered, {waited}: {reason}")
            if reason != logged:
                log.info("broker registration rejected, retried", broker_id=who.broker_id, reason=reason)
                logged = reason
            await asyncio.sleep(backoff_ms / 1000)
            backoff_ms = min(RETRY_BACKOFF_MS_MAX, backoff_ms * 2)
        self.broker_epoch = response.broker_epoch
        self._last_contact = loop.time()
        log.info("broker registered", broker_id=who.broker_id, broker_epoch=self.broker_epoch)
        if not self._registered.done():
            self._registered.set_result(None)

    async def _beat(self) -> bool:
        """Send one heartbeat and move on; True if the next one should follow at once. Raises KafkaError."""
        wants_shutdown = self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
        response = await self._controller.heartbeat(
            BrokerHeartbeatRequest(
                broker_id=self._identity.broker_id,
                broker_epoch=self.broker_epoch,
                current_metadata_offset=self._metadata_offset(),
                want_fence=not self._ready_to_unfence,
                want_shut_down=wants_shutdown,
                offline_log_dirs=sorted(self._offline_log_dirs),
                # Before its metadata are there a broker does not know which are.
                cordoned_log_dirs=None if self.state is BrokerState.STARTING else sorted(self._cordoned_log_dirs()),
            )
        )
        if response.error_code != ErrorCode.NONE:
            raise KafkaError(ErrorCode(response.error_code), "the controller rejected a heartbeat")
        self._last_contact = asyncio.get_running_loop().time()
        if response.is_fenced != self.is_fenced:
            log.info("broker fenced" if response.is_fenced else "broker unfenced", broker_id=self._identity.broker_id)
        self.is_fenced = response.is_fenced
        return self._advance(response, wants_shutdown)

    def _advance(self, response: BrokerHeartbeatResponse, wanted_shutdown: bool) -> bool:
        if self.state is BrokerState.STARTING and response.is_caught_up:
            self.state = BrokerState.RECOVERY
            self._caught_up.set_result(None)
            return self._ready_to_unfence
        if self.state is BrokerState.RECOVERY and not response.is_fenced:
            self.state = BrokerState.RUNNING
            self._unfenced.set_result(None)
        elif wanted_shutdown and response.should_shut_down and not self._shutdown_allowed.done():
            self._shutdown_allowed.set_result(None)
        return False
