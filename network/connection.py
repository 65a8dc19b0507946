"""The server's side of one connection.

Requests are passed to their handlers in order of arrival, one after another; a handler whose response comes later does
not block the next request; responses are sent in request order, except those of Handler.in_order=False. A request that
is handled at once costs no task, no future and no timer. States, each a reason to wait:

    waiting frames    in_flight_max requests without a response, or fewer with quotas (muting.UNCOUNTED_MAX), the client
                      behind (outbox paused), throttled (KIP-219), too early (max.connection.creation.rate), or a
                      coroutine handler about to take its first step: further frames wait, the socket is not read
    budget            queued.max.request.bytes of the process are used up: the socket is not read
    memory            the process's incomplete requests are too large together: the same
    queue             queued.max.requests of the process wait: not read while a request is in progress here
    authentication    a SASL token is being processed, or the delay of a failed authentication runs: the same
    upgraded          frames go to a FrameSink (Raft) without inspection
    finishing         reading has stopped; closes when earlier requests have their responses
    closed            no more requests are handled; bytes in the socket buffer are still sent
"""

import asyncio
from collections import deque
from collections.abc import Awaitable
from functools import partial
from typing import Any

from kvorum.network.arrival import Arrival, arrive
from kvorum.network.context import Peer
from kvorum.network.frame import FrameParser
from kvorum.network.lane import LaneRequest
from kvorum.network.limits import BudgetShare
from kvorum.network.link import FrameLink, stream
from kvorum.network.memory import MemoryShare
from kvorum.network.muting import TURN_REQUESTS_MAX, Muting
from kvorum.network.outbox import WAITING_BYTES_MAX, Outbox, Slot
from kvorum.network.request_queue import QueueShare
from kvorum.network.router import AnswerImpossible, Call, is_message
from kvorum.network.shared import Authentication, Shared
from kvorum.network.upgrade import FrameSink, hand_over
from kvorum.protocol.errors import ProtocolError
from kvorum.protocol.headers import peek_request
from kvorum.protocol.schema import Message
from kvorum.runtime.logs import get_logger
from kvorum.runtime.ordered_set import OrderedSet
from kvorum.security.sasl.authenticator import Next, SaslServerAuthenticator, Step

log = get_logger("network")


class ServerConnection(asyncio.BufferedProtocol):
    """One accepted connection, from accept to loss."""

    __slots__ = (
        *(
            "_arrival",
            "_authenticator",
            "_closed",
            "_counted",
            "_finishing",
            "_goes_on",
            "_held",
            "_in_flight",
            "_is_rejected",
        ),
        *("_muting", "_outbox", "_parser", "_place", "_share", "_shared", "_sink", "_taken", "_tasks"),
        *("_timer", "_transport", "_waiting"),
        *("active_at", "address", "came_s", "is_reading", "lane_memory", "peer"),
    )

    def __init__(self, shared: Shared, arrival: Arrival | None = None) -> None:
        """Wait for a transport; `arrival`: the connection was admitted before (TLS)."""
        self._shared = shared
        self._arrival = arrival
        self._authenticator: SaslServerAuthenticator | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_rejected = False
        self._parser = FrameParser(shared.limits.request_bytes_max, shared.scratch, memory=shared.memory)
        if shared.sasl is not None:
            self._authenticator = SaslServerAuthenticator(shared.sasl)
            self._parser.bytes_max = shared.sasl.receive_bytes_max
        self._held = MemoryShare(shared.memory, self)
        self._waiting: deque[memoryview] = deque()
        self._in_flight = self._taken = 0
        self._tasks: OrderedSet[asyncio.Future[Any]] = OrderedSet()
        self._muting = Muting(shared.loop, self.go_on)
        self.is_reading = True
        self._closed = self._counted = self._finishing = self._goes_on = False
        self.lane_memory: Any = None
        self._share = BudgetShare(shared.budget, self.update_reading)
        self._place = QueueShare(shared.queue, self.update_reading)
        self._sink: FrameSink | None = None
        self._transport: asyncio.Transport
        self._outbox: Outbox
        self.peer: Peer
        self.address = "?"
        self.active_at = self.came_s = 0.0

    @property
    def busy(self) -> bool:
        """Return whether a request is in progress, or an upgraded connection has its own timeouts."""
        return self._in_flight > 0 or self._sink is not None

    @property
    def queued(self) -> int:
        """Return how many requests were received and not answered yet."""
        return self._in_flight + len(self._waiting)

    def touch(self) -> None:
        """Count as active from now on."""
        self.active_at = self._shared.loop.time()
        if self._counted:
            self._shared.by_activity.move_to_end(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection, or reject it because of a limit."""
        shared = self._shared
        self._transport = transport = stream(transport)
        self._outbox = Outbox(transport, shared.loop.time, shared.memory)
        self.active_at = now_s = shared.loop.time()
        self.peer, self.address, wait_s = self._arrival or arrive(shared, transport, now_s)
        if wait_s is None:
            self._closed = True
            return
        self._counted = True
        if self._arrival is not None:
            shared.by_activity[self] = None
            return
        if wait_s > 0:
            self._muting.hold(wait_s)
        shared.joined(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything that this connection held."""
        self._closed = True
        self._outbox.clear()
        self._share.close()
        self._held.close()
        self._parser.clear()
        self._waiting.clear()
        self._place.close()
        if self._timer is not None:
            self._timer.cancel()
        for task in tuple(self._tasks):
            task.cancel()
        if self._sink is not None:
            self._sink.on_closed()
        if self._counted:
            self._counted = False
            self._shared.left(self, self.peer)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go."""
        return self._parser.writable()

    def buffer_updated(self, nbytes: int) -> None:
        """Process received bytes."""
        if self._closed or self._finishing:
            return
        shared = self._shared
        self.touch()
        self.came_s = self.active_at
        self.peer.bytes_in += nbytes
        if shared.metrics is not None:
            shared.metrics.received(shared.listener, nbytes)
        frames = self._parser.received(nbytes)
        if shared.tracing.armed is not None:
            shared.tracing.armed.came(frames)
        self._waiting.extend(frames)
        self._share.read(frames, self._parser.pending)
        self._held.set_request(self._parser.held, self._parser.filled, self.came_s)
        if self._parser.error is not None:
            self._refuse_frame(self._parser.error)
        if self._waiting:
            self._pump()
        elif self._share.waits or self._held.waits or self._muting.is_muted:
            self.update_reading()

    def pause_writing(self) -> None:
        """The client is behind: handle nothing more. An upgraded connection reads on, else both ends might wait."""
        self._outbox.paused = self._sink is None

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._outbox.paused = False
        self.go_on()

    def _pump(self) -> None:
        """Handle waiting frames, as far as the limits permit; continue reading only when none is left."""
        waiting, outbox, muting = self._waiting, self._outbox, self._muting
        if outbox.waiting_bytes > WAITING_BYTES_MAX:
            self._flush()
        turn = TURN_REQUESTS_MAX
        while waiting and not (outbox.paused or muting.is_on or self._closed or self._is_full()):
            if turn == 0:
                muting.yield_turn()
                break
            turn -= 1
            frame = waiting.popleft()
            try:
                if self._sink is None:
                    self._serve(frame)
                else:
                    self._sink.on_frame(frame)
            except ProtocolError as refusal:
                self._drop_waiting()
                self._refuse(refusal)
            self._share.handled(frame)
        if self._closed:
            return
        self._flush()
        if waiting or self._place.count:
            waits_for_client = muting.is_muted or outbox.paused or self._is_full()
            self._place.hold(0 if waits_for_client else len(waiting))
        if self._finishing:
            self._end_if_done()
        else:
            self.update_reading()

    def _is_full(self) -> bool:
        shared = self._shared
        quotas, most = shared.quotas, shared.limits.in_flight_max
        if quotas.enabled:
            most = self._muting.in_hand_max(timed=quotas.timed)
        return self._in_flight >= most or self._outbox.waiting_bytes > WAITING_BYTES_MAX

    def _serve(self, frame: memoryview, *, is_permitted: bool = False) -> None:
        """Handle one request; send the answer if it is available. `is_permitted`: by the authenticator already."""
        shared = self._shared
        authenticator = self._authenticator
        if not (authenticator is None or is_permitted or authenticator.passes(frame, shared.loop.time())):
            self._authenticate(authenticator, frame)
            return
        router, armed = shared.router, shared.tracing.armed
        traced = None if armed is None else armed.begin(frame, self.address)
        self.peer.requests += 1
        try:
            if self._goes_elsewhere(frame, traced is None):
                return
            call = router.start(self.peer, frame, shared.loop.time() * 1000, traced)
            if router.lane is not None and call.route.api_key == router.lane.api_key and call.request is not None:
                router.lane.learn(self, frame, call.ctx, call.request)
            result = call.result
            if result is not None and not is_message(result):
                if shared.quotas.timed or shared.metrics is not None:
                    call.ctx.spent_ms = shared.loop.time() * 1000 - call.ctx.received_ms
                if shared.quotas.timed:
                    self._muting.is_timed = shared.quotas.times(call.ctx)
                self._await(call, result)
                return
            if result is not None:
                self._outbox.send(router.answer(call, result))
            shared.answered(call, result, self.came_s, self._outbox)
            if call.ctx.throttle_ms or self._muting.is_over:
                self._muting.answered(call.ctx.throttle_ms)
        except AnswerImpossible:
            self.close()
        except OSError as error:
            self._failed(error)

    def _goes_elsewhere(self, frame: memoryview, by_lane: bool) -> bool:
        """Return whether a lane took the request, or an upgrade took the connection. Raises ProtocolError."""
        router = self._shared.router
        if router.lane is not None and self.lane_memory is not None:
            if by_lane and router.lane.take(self, frame):
                return True
            if self._taken:
                router.lane.settle()  # requests of a connection are handled in the order they came
        return bool(router.upgrades) and self._upgrade(frame)

    def _authenticate(self, authenticator: SaslServerAuthenticator, frame: memoryview) -> None:
        """Give a frame to the authenticator; the next ones wait."""
        shared = self._shared
        assert shared.sasl is not None
        self._in_flight += 1
        self._muting.suspend()
        step = authenticator.receive(frame, shared.loop.time(), shared.sasl.wall_ms())
        task = shared.loop.create_task(step)
        self._tasks.add(task)
        task.add_done_callback(partial(self._take_step, authenticator, frame))

    def _take_step(
        self, authenticator: SaslServerAuthenticator, frame: memoryview, task: "asyncio.Future[Step]"
    ) -> None:
        """Do what the authenticator decided."""
        self._in_flight -= 1
        self._tasks.discard(task)
        if task.cancelled() or self._closed:
            return
        try:
            step = task.result()
            if step.next is Next.FAIL:
                self._reject(authenticator, step)
                return
            if step.next is Next.EXPIRE:
                self._expire()
                return
            if step.next is Next.COMPLETE:
                self._authenticated(authenticator)
            if step.reply:
                self._outbox.send([step.reply])
            self._muting.resume()
            if step.next is Next.ROUTE:
                self._serve(frame, is_permitted=True)
        except ProtocolError as refusal:
            self._drop_waiting()
            self._refuse(refusal)
        except Exception as error:
            self._shared.authentication_broke(self.address, error)
            self.close()
        self.go_on()

    def _authenticated(self, authenticator: SaslServerAuthenticator) -> None:
        """The peer is authenticated, for the first time or again."""
        session = authenticator.session
        assert session is not None
        self.peer.principal = session.principal
        self._parser.bytes_max = self._shared.limits.request_bytes_max
        is_again = authenticator.is_again
        self._shared.authenticated(Authentication.SUCCEEDED_AGAIN if is_again else Authentication.SUCCEEDED)
        if is_again and self._shared.metrics is not None:
            latency_ms = (self._shared.loop.time() - authenticator.reauthenticated_at_s) * 1000
            self._shared.metrics.reauthenticated(self._shared.listener, latency_ms)
        if not (is_again or authenticator.supports_sessions):
            self._shared.authenticated(Authentication.SUCCEEDED_WITHOUT_SESSIONS)
        if session.expires_at_s is None:
            self._authenticator = None  # nothing is left to check

    def _reject(self, authenticator: SaslServerAuthenticator, step: Step) -> None:
        """Hold the response to a failed authentication back, then close. Nothing is read meanwhile."""
        shared = self._shared
        assert shared.sasl is not None
        shared.not_authenticated(self.address, authenticator, step.reason)
        self._is_rejected = True
        delay_s = shared.counts.failures.delay_s(self.peer.client_address, shared.loop.time())
        delay_s = max(delay_s, shared.sasl.failure_delay_ms / 1000)
        self._timer = shared.loop.call_later(delay_s, self._end_rejected, step.reply)
        self.finish()

    def _end_rejected(self, reply: bytes) -> None:
        self._is_rejected = False
        if not self._closed:
            if reply:
                self._outbox.send([reply])
            self._end_if_done()

    def _expire(self) -> None:
        """Close because the session has expired."""
        self._shared.authenticated(Authentication.EXPIRED)
        log.debug("connection closed: its session has expired", client=self.address, listener=self._shared.listener)
        self.finish()

    def _await(self, call: Call, result: Awaitable[Message | None]) -> None:
        """Reserve the answer's slot until it comes; without an order it gets one then."""
        slot = self._outbox.reserve() if call.route.in_order else None
        future = asyncio.ensure_future(result, loop=self._shared.loop)
        if future is not result:
            self._muting.yield_turn()  # a new task has not begun: the next request must not overtake it
        self._in_flight += 1
        if call.route.abandon:
            self._tasks.add(future)
        future.add_done_callback(partial(self._arrived, call, slot, self.came_s))

    def _arrived(self, call: Call, slot: Slot | None, came_s: float, future: "asyncio.Future[Message | None]") -> None:
        """Store a response in its slot."""
        self._in_flight -= 1
        self._tasks.discard(future)
        if call.traced is not None:
            call.traced.ended("wait")
            if self._closed or future.cancelled():
                call.traced.answered(call.route.name, call.ctx, None)
        try:
            if future.cancelled():
                raise AnswerImpossible(f"{call.route.name} was cancelled")
            error = future.exception()
            response = future.result() if error is None else self._shared.router.failed(call, error)
            if self._closed:
                return
            if slot is None:
                slot = self._outbox.reserve()
            self._outbox.place(slot, [] if response is None else self._shared.router.answer(call, response))
        except ProtocolError as refusal:
            self._refuse(refusal)
            return
        except AnswerImpossible:
            self.close()
            return
        self._shared.answered(call, response, came_s, self._outbox, slot)
        if call.ctx.throttle_ms or self._muting.is_over:
            self._muting.answered(call.ctx.throttle_ms)
        if self._in_flight:
            self.go_on_soon()
        else:
            self.go_on()  # nothing else can come along

    def hold(self) -> Slot:
        """See LaneCaller."""
        self._in_flight += 1
        self._taken += 1
        return self._outbox.reserve()

    def give(self, slot: Slot, frame: bytes, throttle_ms: int) -> None:
        """See LaneCaller."""
        self._in_flight -= 1
        self._taken -= 1
        slot.parts = [frame] if frame else []
        if throttle_ms or self._muting.is_over:
            self._muting.answered(throttle_ms)

    def handled(self, api: str, version: int, elapsed_ms: float, taken: LaneRequest) -> None:
        """See LaneCaller."""
        if self._shared.metrics is not None:
            self._shared.metrics.handled_by_lane(api, version, elapsed_ms, taken, self._outbox)

    def go_on(self) -> None:
        """See LaneCaller."""
        self._goes_on = False
        if not self._closed:
            self._pump()

    def go_on_soon(self) -> None:
        """Send everything of one loop iteration in one write, and continue."""
        if not self._goes_on:
            self._goes_on = True
            self._shared.loop.call_soon(self.go_on)

    def _upgrade(self, frame: memoryview) -> bool:
        """Hand the connection over if the frame requests it. Raises ProtocolError."""
        upgrade = self._shared.router.upgrades.get(peek_request(frame)[0])
        if upgrade is None:
            return False
        if self._in_flight or len(self._outbox):
            raise ProtocolError("upgrade requested while earlier requests are in flight")
        self._flush()
        if self._authenticator is not None:
            session = self._authenticator.session
            assert session is not None and session.expires_at_s is not None
            self._timer = self._shared.loop.call_at(session.expires_at_s, self._expire)
        self._sink = hand_over(upgrade, FrameLink(self._transport, self.address), self.peer, frame, self.came_s * 1000)
        return True

    def _flush(self) -> None:
        outbox, peer = self._outbox, self.peer
        try:
            outbox.flush()
        except OSError as error:
            self._failed(error)
        if outbox.sent != peer.bytes_out:  # since the last look: a large response is sent before this is reached
            self.touch()
            if self._shared.metrics is not None:
                self._shared.metrics.sent(self._shared.listener, outbox.sent - peer.bytes_out)
            peer.bytes_out = outbox.sent
        if outbox.paused or outbox.waiting_bytes or self._held.response_bytes:
            self._held.set_response(outbox.held)

    def update_reading(self) -> None:
        """Read the socket, or do not, as the states require."""
        is_held = self._muting.is_muted or self._outbox.paused
        self._share.put_aside(is_held)
        is_held = is_held or self._share.waits or self._held.waits
        wanted = not (is_held or self._waiting or (self._in_flight and self._place.must_wait()))
        if wanted == self.is_reading or self._closed or self._transport.is_closing():
            return
        self.is_reading = wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def close(self) -> None:
        """Stop handling; send the socket's bytes, then close. A second call does not wait for the client."""
        if self._goes_on and not self._closed:
            self._flush()
        if self._closed:
            self._transport.abort()
            return
        self._closed = True
        self._drop_waiting()
        self._transport.close()

    def abort(self) -> None:
        """Close at once, whatever the client still had to get."""
        self._closed = True
        self._transport.abort()

    def drop(self, reason: str) -> None:
        """Close at once, because connections hold too much memory."""
        self._shared.dropped(self.address, reason)
        self.abort()

    def finish(self) -> None:
        """Accept no further request, not even waiting ones; close when those in progress have their responses."""
        self._drop_waiting()
        self._stop_reading()

    def _drop_waiting(self) -> None:
        self._waiting.clear()
        self._place.hold(0)

    def _refuse(self, error: ProtocolError) -> None:
        """Close because of an invalid request, after the responses to earlier requests, as Kafka does."""
        if not self._finishing:
            self._shared.malformed(self.address, error)
        self._stop_reading()

    def _refuse_frame(self, error: ProtocolError) -> None:
        """Close because of a frame's size; before authentication as a failed one, after the delay."""
        if self._authenticator is None or self._authenticator.is_complete:
            self._refuse(error)
        else:
            self._reject(self._authenticator, self._authenticator.fail(str(error)))

    def _stop_reading(self) -> None:
        self._finishing = True
        if self.is_reading and not self._closed:
            self.is_reading = False
            self._transport.pause_reading()
        self._end_if_done()

    def _end_if_done(self) -> None:
        if not (self._closed or self._is_rejected or self._waiting or self._in_flight or len(self._outbox)):
            self._flush()
            self.close()

    def _failed(self, error: OSError) -> None:
        """A file could not be read: an answer that has begun cannot be taken back."""
        self._shared.cut_short(self.address, error)
        self.abort()
