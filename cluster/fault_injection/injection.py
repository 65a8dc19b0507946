"""Fault injection inside a process: requests rejected, delayed or dropped, listeners that refuse.

A rule applies to the next N requests of one API (all of them, until it is removed), optionally only of one client id
or listener. The first matching rule determines the handling:

    error CODE   not handled; the response has the code for everything in the request
    delay MS     handled at once, with a delayed response; the order is kept
    drop         no response: the connection is closed (`close`) or stays open and silent (`silence`), before the
    request is handled, or afterwards (`handled`): executed, but the client does not know

Only a process whose configuration opens the control listener (chaos_control.py) has one of these.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from kvorum.cluster.fault_injection.error_answers import refusal
from kvorum.network.context import RequestContext
from kvorum.network.router import AnswerImpossible, HandlerFunction, Result, is_message
from kvorum.network.server import Listener
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.schema import Message
from kvorum.runtime.logs import get_logger

log = get_logger("chaos")

RULES_MAX: Final = 64
"""Limit of rules; each is checked for every request of its API."""
SILENT_MAX: Final = 10_000
"""Requests kept without an answer; one more closes its connection."""

Action: TypeAlias = Literal["error", "delay", "drop"]


class TooManyRules(Exception):
    """RULES_MAX are in force."""


class NoSuchListener(Exception):
    """A name that no listener of this process has."""


@dataclass(slots=True, kw_only=True)
class Rule:
    """Action for requests of one API."""

    action: Action
    api_key: int
    remaining: int | None = None
    """Number of remaining requests; None: until it is removed."""
    client_id: str | None = None
    """Only this client; None: all."""
    listener: str | None = None
    """Over this listener only (a forwarded request: the one its client used); None: over all."""
    code: ErrorCode = ErrorCode.NONE
    at_top: bool = False
    """The code is set at the top level of the response, although its items have fields for one too."""
    delay_ms: int = 0
    silent: bool = False
    handled: bool = False
    hits: int = 0
    """Number of requests so far."""

    def fits(self, ctx: RequestContext) -> bool:
        """Return whether the rule matches this request of its API."""
        return self.client_id in (None, ctx.client_id) and self.listener in (None, ctx.listener)


class Injection:
    """An Interposer for fault injection: wraps every handler of a process and knows its listeners."""

    def __init__(self) -> None:
        """Start without rules."""
        self._rules: dict[int, Rule] = {}
        self._by_api: dict[int, list[int]] = {}
        self._next_id = 1
        self._silent: set[asyncio.Future[None]] = set()
        self._listeners: dict[str, Listener] = {}

    # The interposer's side.

    def around(self, api_key: int, handle: HandlerFunction) -> HandlerFunction:
        """Return the handler with the rules in front of it."""

        def handled(ctx: RequestContext, request: Message) -> Result:
            if api_key not in self._by_api:
                return handle(ctx, request)
            rule = self._take(api_key, ctx)
            return handle(ctx, request) if rule is None else self._apply(rule, handle, ctx, request)

        return handled

    def opened(self, listener: Listener) -> None:
        """Know a listener."""
        self._listeners[listener.name] = listener

    def _take(self, api_key: int, ctx: RequestContext) -> Rule | None:
        """Return the rule for this request, counted, None where none fits."""
        for rule_id in self._by_api[api_key]:
            rule = self._rules[rule_id]
            if rule.fits(ctx):
                rule.hits += 1
                if rule.remaining is not None:
                    rule.remaining -= 1
                    if rule.remaining == 0:
                        self.withdraw(rule_id)
                return rule
        return None

    def _apply(self, rule: Rule, handle: HandlerFunction, ctx: RequestContext, request: Message) -> Result:
        if rule.action == "error":
            return refused(rule, ctx, request)
        if rule.action == "delay":
            return _late(_begun(handle(ctx, request)), rule.delay_ms / 1000)
        if rule.handled:
            return self._lost(_begun(handle(ctx, request)), rule.silent)
        if not rule.silent:
            raise AnswerImpossible("injected: the connection is closed")
        return self._silence()

    async def _lost(self, result: Message | asyncio.Future[Message | None] | None, silent: bool) -> Message | None:
        """Send no response to executed requests."""
        if isinstance(result, asyncio.Future):
            await result
        if not silent:
            raise AnswerImpossible("injected: executed, then the connection is closed")
        return await self._silence()

    async def _silence(self) -> Message | None:
        """Wait until the rules are cleared, then close the connection."""
        if len(self._silent) < SILENT_MAX:
            waiting = asyncio.get_running_loop().create_future()
            self._silent.add(waiting)
            try:
                await waiting
            finally:
                self._silent.discard(waiting)
        raise AnswerImpossible("injected: no response")

    # The control's side.

    def add(self, rule: Rule) -> int:
        """Add a rule; return its id. Raises TooManyRules."""
        if len(self._rules) >= RULES_MAX:
            raise TooManyRules(f"{RULES_MAX} rules are active; remove some")
        rule_id = self._next_id
        self._next_id += 1
        self._rules[rule_id] = rule
        self._by_api.setdefault(rule.api_key, []).append(rule_id)
        log.warning("fault injected", id=rule_id, action=rule.action, api_key=rule.api_key, count=rule.remaining)
        return rule_id

    def withdraw(self, rule_id: int) -> bool:
        """Withdraw a rule; return whether it was in force. Requests that it delays continue to wait."""
        rule = self._rules.pop(rule_id, None)
        if rule is None:
            return False
        ids = self._by_api[rule.api_key]
        ids.remove(rule_id)
        if not ids:
            del self._by_api[rule.api_key]
        log.warning("injected fault ended", id=rule_id, hits=rule.hits)
        return True

    def clear(self) -> None:
        """Remove every rule, and close the connections that were kept silent."""
        for rule_id in tuple(self._rules):
            self.withdraw(rule_id)
        for waiting in tuple(self._silent):
            if not waiting.done():
                waiting.set_result(None)

    @property
    def rules(self) -> dict[int, Rule]:
        """The rules in force by id, oldest first."""
        return dict(self._rules)

    @property
    def silent(self) -> int:
        """Number of requests that are kept without a response."""
        return len(self._silent)

    def listener(self, name: str) -> Listener:
        """Return a listener of this process. Raises NoSuchListener."""
        if name not in self._listeners:
            raise NoSuchListener(f"unknown listener {name!r}; available: {', '.join(self._listeners)}")
        return self._listeners[name]

    @property
    def listeners(self) -> dict[str, Listener]:
        """The listeners that were opened so far."""
        return dict(self._listeners)


def refused(rule: Rule, ctx: RequestContext, request: Message) -> Message:
    """Return the answer with the rule's code.

    Raises AnswerImpossible if no answer has such a field: the connection closes.
    """
    unanswered = getattr(request, "acks", None) == 0
    message = f"injected: {rule.code.name}"
    answer = None if unanswered else refusal(request, ctx.api_version, rule.code, message, at_top=rule.at_top)
    if answer is None:
        raise AnswerImpossible(message)
    return answer


def _begun(result: Result) -> Message | asyncio.Future[Message | None] | None:
    """Let a handler continue independently of its caller."""
    if result is None or is_message(result):
        return result
    return asyncio.ensure_future(_awaited(result))


async def _awaited(result: Awaitable[Message | None]) -> Message | None:
    return await result


async def _late(result: Message | asyncio.Future[Message | None] | None, seconds: float) -> Message | None:
    """Delay a response; a cancelled waiter ends the handler too."""
    try:
        await asyncio.sleep(seconds)
        return await result if isinstance(result, asyncio.Future) else result
    finally:
        if isinstance(result, asyncio.Future) and not result.done():
            result.cancel()
