"""Periodic tasks of the active controller.

    session timeouts        broker.session.timeout.ms after the last heartbeat: fence, one broker per decision
    leader balance          every leader.imbalance.check.interval.seconds, with auto.leader.rebalance.enable
    unclean elections       every unclean.leader.election.interval.ms, where a config permits them
    delegation tokens       every delegation.token.expiry.check.interval.ms: expired ones are removed
    no-op records           a NoOp record if nothing was written for metadata.max.idle.interval.ms

Timers are `loop.call_later` and run while this node is active. A new active controller restarts all broker sessions. So
does a controller whose event loop was blocked (process stopped or starved), because it could not receive heartbeats.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Final, TypeVar

from kvorum.protocol.errors import KafkaError
from kvorum.quorum.controller.context import Context
from kvorum.quorum.controller.delegation_token_control import SWEEP_RECORDS_MAX, sweep_expired_tokens
from kvorum.quorum.controller.elections import balance_leaders, sweep_unclean
from kvorum.quorum.controller.liveness import fence_refused_broker, fence_stale_brokers
from kvorum.quorum.controller.result import Result
from kvorum.quorum.image import MetadataImage
from kvorum.quorum.records import NoOp
from kvorum.quorum.services import ControllerServices
from kvorum.quorum.steps import Steps
from kvorum.runtime.logs import get_logger
from kvorum.runtime.ordered_set import OrderedSet

log = get_logger("quorum")

T = TypeVar("T")

FENCE_CHECK_MS_MIN: Final = 10
"""Sessions that expire within this time are checked together."""
STALL_FRACTION: Final = 4
"""A timer that is late by a quarter of a session means that this process was blocked; its sockets have unread
heartbeats."""


class ControllerTasks:
    """Runs the periodic tasks. An ActivationListener of the ActiveController."""

    def __init__(self, services: ControllerServices) -> None:
        """Prepare; tasks run after activation."""
        self._services = services
        self._session_timeout_ms = services.controller_settings.session_timeout_ms
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._tasks: OrderedSet[asyncio.Task[None]] = OrderedSet()
        self.fast_fencings = 0
        """Brokers fenced since the start because they rejected connections."""
        self.session_ends = 0
        """Brokers fenced since the start because their session expired."""

    def on_activated(self, image: MetadataImage) -> None:
        """Begin."""
        services, settings = self._services, self._services.settings
        services.heartbeats.activate(image.cluster, services.clock.monotonic_ms())
        services.observers.clear()
        self._watch_sessions()
        if settings.bool("auto.leader.rebalance.enable"):
            interval_ms = settings.int("leader.imbalance.check.interval.seconds") * 1000
            self._repeat("leader balance", interval_ms, lambda: self._until_done(balance_leaders, "balanceLeaders"))
        interval_ms = settings.int("unclean.leader.election.interval.ms")
        self._repeat("unclean elections", interval_ms, lambda: self._until_done(sweep_unclean, "electUnclean"))
        if services.token_hmacs.enabled:
            interval_ms = settings.int("delegation.token.expiry.check.interval.ms")
            self._repeat("delegation tokens", interval_ms, self._sweep_tokens)
        self._watch_idleness()

    def on_deactivated(self) -> None:
        """Stop."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """Stop, and wait until all of it has."""
        self.on_deactivated()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))

    async def fence_refused(self, broker_id: int, broker_epoch: int) -> None:
        """Fence a broker epoch whose address refuses connections."""
        try:
            fenced = await self._services.submit(
                None,
                lambda context, epoch: fence_refused_broker(context, broker_id, epoch),
                broker_epoch,
                name="fenceRefused",
            )
        except KafkaError as error:
            log.info("broker not fenced", broker_id=broker_id, reason=error)
            return
        if fenced:
            self.fast_fencings += 1
            log.info("broker fenced", broker_id=broker_id, broker_epoch=broker_epoch, reason="refuses connections")

    def _watch_sessions(self) -> None:
        """Schedule the next check: at the next session expiry, or after half a session for newly unfenced brokers."""
        services = self._services
        now_ms = services.clock.monotonic_ms()
        latest_ms = now_ms + max(1, self._session_timeout_ms // 2)
        deadline_ms = services.heartbeats.next_check_ms(services.controller.speculative_image.cluster, now_ms)
        due_ms = latest_ms if deadline_ms is None else min(max(deadline_ms, now_ms + FENCE_CHECK_MS_MIN), latest_ms)
        self._call_later("sessions", due_ms - now_ms, lambda: self._check_sessions(due_ms))

    def _check_sessions(self, due_ms: int) -> None:
        services = self._services
        now_ms = services.clock.monotonic_ms()
        if now_ms - due_ms > self._session_timeout_ms // STALL_FRACTION:
            log.warning("controller was blocked, broker sessions restarted", late_ms=now_ms - due_ms)
            services.heartbeats.activate(services.controller.speculative_image.cluster, now_ms)
        elif not services.controller.is_making:  # else heartbeats wait too: they are processed first
            self._start(self._fence_stale())
        self._watch_sessions()

    async def _fence_stale(self) -> None:
        """Fence all brokers with an expired session, one per decision."""
        services = self._services
        stale = services.heartbeats.stale_brokers
        while stale(services.controller.speculative_image.cluster, services.clock.monotonic_ms()):
            fenced = await self._submit(fence_stale_brokers, "fenceStale")
            if not fenced:
                return
            self.session_ends += 1
            log.info("broker fenced", broker_id=fenced, reason="session expired")

    async def _sweep_tokens(self) -> None:
        """Remove expired delegation tokens."""
        services = self._services
        removed = SWEEP_RECORDS_MAX
        while removed == SWEEP_RECORDS_MAX:
            removed = await services.submit(
                None, sweep_expired_tokens, services.clock.wall_ms(), name="sweepDelegationTokens", confirm=False
            )
            if removed:
                log.info("expired delegation tokens removed", count=removed)

    async def _until_done(self, decide: Callable[[Context], Steps[Result[bool]]], name: str) -> None:
        """Decide repeatedly while the answer is that more is left."""
        more = True
        while more:
            more = await self._submit(decide, name)

    async def _submit(self, decide: Callable[[Context], Steps[Result[T]]], name: str) -> T:
        return await self._services.submit(None, lambda context, _: decide(context), None, name=name, confirm=False)

    def _watch_idleness(self) -> None:
        services = self._services
        interval_ms = services.settings.int("metadata.max.idle.interval.ms")
        if interval_ms <= 0:
            return
        now_ms = services.clock.monotonic_ms()
        left_ms = services.controller.last_append_ms + interval_ms - now_ms
        if left_ms <= 0:
            if not services.controller.is_making:
                services.controller.write_nowait("idle", [NoOp()])
            left_ms = interval_ms
        self._call_later("idle", left_ms, self._watch_idleness)

    def _repeat(self, name: str, interval_ms: int, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Run at this interval in milliseconds; a longer run delays the next one. 0: never."""
        if interval_ms <= 0:
            return

        def run() -> None:
            self._start(work())
            self._call_later(name, interval_ms, run)

        self._call_later(name, interval_ms, run)

    def _call_later(self, name: str, delay_ms: int, callback: Callable[[], None]) -> None:
        self._timers[name] = asyncio.get_running_loop().call_later(max(delay_ms, 1) / 1000, callback)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(self._guard(work))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._services.on_fault(error)

    async def _guard(self, work: Coroutine[None, None, None]) -> None:
        """Run a task; a KafkaError ends it, for example when another controller became active, which runs it again."""
        try:
            await work
        except KafkaError as error:
            log.info("periodic controller task delayed", reason=error)
