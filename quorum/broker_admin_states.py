"""Drives the brokers' administrative states: maintenance and decommission (docs/decisions/0024).

controller/relief and controller/departure decide. This class calls them

    after a change of the metadata   (brokers, partitions or configs) with a delay of LOOK_DELAY_MS, which merges
                                     changes that are committed together
    after a step with more to do     with a delay of STEP_GAP_MS, so that clients first find the moved leaders

and at no other time: a step that is impossible now becomes possible by a change of the metadata. Without brokers in an
administrative state there is no work. All work ends when this node is no longer the active controller; the next active
controller continues from the metadata.
"""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from kvorum.protocol.errors import KafkaError
from kvorum.quorum.controller.broker_admin_state import BrokerAdminState, admin_states_in
from kvorum.quorum.controller.context import Context
from kvorum.quorum.controller.departure import Departure, move_replicas
from kvorum.quorum.controller.relief import move_leaders
from kvorum.quorum.controller.result import Result
from kvorum.quorum.image import MetadataImage
from kvorum.quorum.raft.log import SnapshotView
from kvorum.quorum.services import ControllerServices
from kvorum.quorum.steps import Steps
from kvorum.runtime.logs import get_logger

log = get_logger("quorum")

T = TypeVar("T")

LOOK_DELAY_MS: Final = 20
STEP_GAP_MS: Final = 100
RETRY_MS: Final = 500
"""Delay before a rejected decision (too many changes in flight) is retried, if this node is still active."""


class BrokerAdminStates:
    """Drives maintenance and decommission. An ActivationListener, and a MetadataLogListener after ActiveController."""

    def __init__(self, services: ControllerServices) -> None:
        """Prepare; work starts with the activation."""
        self._services = services
        self._seen: MetadataImage | None = None
        self._states: dict[int, BrokerAdminState] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._again = False
        self._waiting: dict[int, int] = {}
        self._moving: dict[int, int] = {}

    def partitions_left(self) -> dict[int, int]:
        """Return the number of partitions left per decommissioned broker, as of the last step."""
        return {broker_id: self._waiting.get(broker_id, 0) + moving for broker_id, moving in self._moving.items()}

    def leaders_left(self) -> dict[int, int]:
        """Return the number of partitions that each broker in maintenance leads; empty if this node is not active."""
        index = self._services.store.image.topics.index
        resting = (broker_id for broker_id, state in self._states.items() if state is BrokerAdminState.MAINTENANCE)
        return {broker_id: index.leader_count(broker_id) for broker_id in resting}

    def on_activated(self, image: MetadataImage) -> None:
        """Begin."""
        self._seen = None
        self._look()

    def on_deactivated(self) -> None:
        """Stop."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None:
            self._task.cancel()
        self._states, self._waiting, self._moving = {}, {}, {}

    async def close(self) -> None:
        """Stop, and wait until all of it has."""
        self.on_deactivated()
        if self._task is not None:
            await asyncio.wait((self._task,))

    # MetadataLogListener.

    def on_batch_applied(self, base_offset: int, epoch: int, timestamp_ms: int, batch: bytes) -> None:
        """Schedule a step if brokers, partitions or configs changed."""
        if self._services.controller.epoch >= 0:
            self._look()

    def on_snapshot_loaded(self, snapshot: SnapshotView) -> None:
        """See MetadataLogListener."""

    def on_leader_changed(self, leader_id: int | None, epoch: int) -> None:
        """See MetadataLogListener."""

    def on_active(self, epoch: int) -> None:
        """See MetadataLogListener."""

    def on_inactive(self) -> None:
        """See MetadataLogListener."""

    def _look(self) -> None:
        """Read the administrative states and schedule a step if there are any."""
        image, seen = self._services.store.image, self._seen
        self._seen = image
        brokers_or_configs = seen is None or seen.cluster is not image.cluster or seen.configs is not image.configs
        if brokers_or_configs:
            self._states = admin_states_in(image)
            self._waiting = {each: left for each, left in self._waiting.items() if each in self._states}
            self._moving = {each: left for each, left in self._moving.items() if each in self._states}
        if self._states and (brokers_or_configs or seen is None or seen.topics is not image.topics):
            self._soon(LOOK_DELAY_MS)

    def _soon(self, delay_ms: int) -> None:
        if self._task is not None:
            self._again = True
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._start)

    def _start(self) -> None:
        self._timer = None
        self._again = False
        self._task = asyncio.get_running_loop().create_task(self._step())
        self._task.add_done_callback(self._ended)

    async def _step(self) -> None:
        """Take one step for each administrative state in use."""
        states = self._states.values()
        more = False
        if BrokerAdminState.MAINTENANCE in states or BrokerAdminState.ACTIVE in states:
            more = await self._submit(move_leaders, "moveLeaders")
        if BrokerAdminState.DECOMMISSIONED in states:
            self._note(await self._submit(move_replicas, "moveReplicas"))
        if more:
            self._again = True

    def _note(self, departures: list[Departure]) -> None:
        """Store the progress, and log brokers without replicas."""
        for each in departures:
            before = self.partitions_left().get(each.broker_id)
            self._moving[each.broker_id] = each.moving
            if each.waiting is not None:
                self._waiting[each.broker_id] = each.waiting
            if self.partitions_left()[each.broker_id] == 0 and before != 0:
                log.info("broker decommissioned, stop it and unregister it", broker_id=each.broker_id)

    async def _submit(self, decide: Callable[[Context], Steps[Result[T]]], name: str) -> T:
        return await self._services.submit(None, lambda context, _: decide(context), None, name=name, confirm=False)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        error = None if task.cancelled() else task.exception()
        delay_ms = STEP_GAP_MS
        if isinstance(error, KafkaError):
            log.info("broker state change delayed", reason=error)
            self._again, delay_ms = True, RETRY_MS
        elif error is not None:
            self._services.on_fault(error)
            return
        if self._again and self._services.controller.epoch >= 0:
            self._soon(delay_ms)
