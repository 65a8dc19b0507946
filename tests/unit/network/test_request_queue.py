"""queued.max.requests: who is not read while too many requests of the process wait, and who is all the same."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kvorum.network.connection import ServerConnection
from kvorum.network.connection_counts import ConnectionCounts
from kvorum.network.context import RequestContext
from kvorum.network.limits import ConnectionLimits, RequestBudget
from kvorum.network.request_queue import QueueShare, RequestQueue
from kvorum.network.router import Handler
from kvorum.network.shared import Shared
from kvorum.protocol.api import ApiKey
from kvorum.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kvorum.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kvorum.protocol.messages.metadata import MetadataRequest
from kvorum.runtime.listeners import SecurityProtocol
from tests.unit.network.network_kit import listener_of, metadata_handler, request_frame, run, until

MAX = 3


class Wire(asyncio.Transport):
    """A transport that notes whether it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.reading = True
        self.answers = 0
        self.ended = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.0.0.1", 5) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.ended

    def write(self, data: Any) -> None:
        self.answers += 1

    def writelines(self, parts: Any) -> None:
        self.answers += len(parts)

    def close(self) -> None:
        self.ended = True

    abort = close


class World:
    """Connections that are fed by hand, over handlers of three kinds."""

    def __init__(self, requests_max: int = MAX, in_flight_max: int = 100) -> None:
        self.parked: list[asyncio.Future[InitProducerIdResponse]] = []

        def park(ctx: RequestContext, request: InitProducerIdRequest) -> asyncio.Future[InitProducerIdResponse]:
            self.parked.append(asyncio.get_running_loop().create_future())
            return self.parked[-1]

        async def step(ctx: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
            return ListGroupsResponse()

        handlers = (Handler(ApiKey.INIT_PRODUCER_ID, (0, 5), park), Handler(ApiKey.LIST_GROUPS, (0, 5), step))
        self.queue = RequestQueue(requests_max)
        self.shared = Shared(
            loop=asyncio.get_running_loop(),
            router=listener_of(metadata_handler(), *handlers)._router,
            listener="PLAINTEXT",
            security_protocol=SecurityProtocol.PLAINTEXT,
            limits=ConnectionLimits(in_flight_max=in_flight_max),
            counts=ConnectionCounts(),
            budget=RequestBudget(),
            queue=self.queue,
        )

    def connection(self) -> tuple[ServerConnection, Wire]:
        made, wire = ServerConnection(self.shared), Wire()
        made.connection_made(wire)
        return made, wire


def feed(connection: ServerConnection, *frames: bytes) -> None:
    data = b"".join(frames)
    connection.get_buffer(-1)[: len(data)] = data
    connection.buffer_updated(len(data))


def steps(count: int) -> list[bytes]:
    """Requests that are handled one in each turn of the loop."""
    return [request_frame(ListGroupsRequest(), 0, number) for number in range(count)]


PARKED = request_frame(InitProducerIdRequest(), 4, 1)
QUICK = request_frame(MetadataRequest(), 9, 1)


def test_while_too_many_wait_a_connection_with_a_request_in_hand_is_not_read() -> None:
    async def main() -> None:
        world = World()
        (busy, _), (pipelining, wire), (quiet, quiet_wire) = (world.connection() for _ in range(3))
        feed(busy, *steps(5))
        assert world.queue.count == 4 > MAX
        feed(pipelining, PARKED)
        assert not wire.reading
        feed(quiet, QUICK)
        assert quiet_wire.reading and quiet_wire.answers == 1
        await until(lambda: not world.queue.full)
        assert wire.reading
        await until(lambda: world.queue.count == 0)

    run(main)


def test_a_connection_without_pending_requests_is_always_read() -> None:
    async def main() -> None:
        world = World()
        (busy, _), (pipelining, wire) = world.connection(), world.connection()
        feed(busy, *steps(50))
        feed(pipelining, PARKED)
        assert not wire.reading
        world.parked[0].set_result(InitProducerIdResponse())
        await until(lambda: wire.answers == 1)
        assert world.queue.full and wire.reading

    run(main)


def in_hand_is_enough(world: World, connection: ServerConnection) -> None:
    feed(connection, *[PARKED] * 40)


def takes_no_answers(world: World, connection: ServerConnection) -> None:
    connection.pause_writing()
    feed(connection, *steps(40))


def throttled(world: World, connection: ServerConnection) -> None:
    connection._muting.hold(60)
    feed(connection, *steps(40))


@pytest.mark.parametrize("own_reason", [in_hand_is_enough, takes_no_answers, throttled])
def test_a_response_that_waits_for_its_client_delays_no_other(
    own_reason: Callable[[World, ServerConnection], None],
) -> None:
    async def main() -> None:
        world = World(in_flight_max=2)
        (slow, slow_wire), (other, wire) = world.connection(), world.connection()
        own_reason(world, slow)
        assert slow.queued == 40 and not slow_wire.reading
        assert world.queue.count == 0
        feed(other, PARKED)
        assert wire.reading

    run(main)


@pytest.mark.parametrize("end", ["connection_lost", "close", "finish"])
def test_a_connection_that_ends_takes_its_requests_out(end: str) -> None:
    async def main() -> None:
        world = World()
        (busy, _), (pipelining, wire) = world.connection(), world.connection()
        feed(busy, *steps(50))
        feed(pipelining, PARKED)
        assert world.queue.full and not wire.reading
        getattr(busy, end)(*([None] if end == "connection_lost" else []))
        assert world.queue.count == 0
        assert wire.reading

    run(main)


def test_waiting_connections_are_resumed_in_order() -> None:
    queue = RequestQueue(2)
    resumed: list[str] = []
    filling = QueueShare(queue, lambda: resumed.append("filling"))
    shares = {name: QueueShare(queue, lambda name=name: resumed.append(name)) for name in ("a", "b", "c")}  # type: ignore[misc]
    assert not shares["a"].must_wait()
    filling.hold(5)
    assert all(share.must_wait() for share in shares.values())
    shares["b"].close()
    filling.hold(2)
    assert resumed == []
    filling.hold(1)
    assert resumed == ["a", "c"]
    filling.close()
    filling.close()
    assert queue.count == 0
