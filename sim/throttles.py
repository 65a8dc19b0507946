"""Meaning of a throttle time (KIP-219) for clients, and cost of requests where their time is counted.

ThrottleKept: a client with a throttle time gets no answer, over the same connection, to requests that it sends from
then on before that time is over. It runs from when the throttled request was handled: not before it was sent, which the
client knows. Only that is checked while faults are in force; that a throttle ends is checked in the quiet phase
(quota_probe).
"""

from collections.abc import Callable
from typing import Any, Final

from kvorum.network.channel import ClientConnection
from kvorum.network.context import RequestContext
from kvorum.network.router import HandlerFunction
from kvorum.network.server import Listener
from kvorum.protocol.schema import Message
from sim.ledger import Violation

SLACK_S: Final = 1e-6
"""Tolerance of sums."""


class ThrottleWatch:
    """One per run, for all its clients."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        """Start without throttles; `now_s` is the loop's time."""
        self._now_s = now_s
        self._throttles: dict[ClientConnection, tuple[float, float]] = {}
        """Time of the last answer with the longest throttle, and its earliest end."""
        self._latest: dict[ClientConnection, float] = {}
        """Its latest end: it began before the answer."""
        self.throttle_count = 0
        """Answers with a throttle time."""
        self.wait_count = 0
        """Answers to requests sent during a throttle, or after it."""

    def until_s(self, connection: ClientConnection | None) -> float:
        """Return the latest end of a connection's throttle, by all its answers; 0 for none."""
        return 0.0 if connection is None else self._latest.get(connection, 0.0)

    def check_response(
        self,
        who: str,
        over: tuple[ClientConnection | None, ClientConnection | None],
        requested_s: float,
        response: Message,
    ) -> None:
        """Process an answer to a request of that time; `over`: the connections then and now.

        Raises Violation.
        """
        before, after = over
        now_s = self._now_s()
        throttled_s, until_s = (None, 0.0) if before is None else self._throttles.get(before, (None, 0.0))
        if throttled_s is not None and requested_s >= throttled_s:
            if now_s < until_s - SLACK_S:
                raise Violation(
                    "ThrottleKept",
                    f"{who} was answered {type(response).__name__} {until_s - now_s:.3f} s before the end of a "
                    "throttle that it received before its request",
                )
            self.wait_count += 1
        throttle_ms = getattr(response, "throttle_time", 0)
        if throttle_ms and after is not None:
            self.throttle_count += 1
            self._throttles = {each: held for each, held in self._throttles.items() if each.usable}
            self._latest = {each: self._latest[each] for each in self._throttles}
            self._latest[after] = max(self._latest.get(after, 0.0), now_s + throttle_ms / 1000)
            known = self._throttles.get(after, (0.0, 0.0))
            self._throttles[after] = max(known, (now_s, requested_s + throttle_ms / 1000), key=lambda held: held[1])


class RequestCosts:
    """Wraps a handler: simulates that every request arrived earlier, by a share of the loop's time."""

    def __init__(self, cost_ms: float) -> None:
        """Set the share of the loop's time that every request takes."""
        self._cost_ms = cost_ms

    def around(self, api_key: int, handle: HandlerFunction) -> HandlerFunction:
        """See Interposer."""

        def costly(ctx: RequestContext, request: Any) -> Any:
            ctx.received_ms -= self._cost_ms
            return handle(ctx, request)

        return costly

    def add_listener(self, listener: Listener) -> None:
        """See Interposer."""
