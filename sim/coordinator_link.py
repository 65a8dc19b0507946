"""A client's connection to the coordinator of a group or a transactional id, looked up again when it moves.

The caller decides whether an answer is an error and passes its code; here is decided whether to look up the coordinator
again.
"""

import asyncio
from typing import Final, TypeVar

from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kvorum.protocol.schema import Message
from sim.client import RETRY_S, NoAnswer, SimClient

GROUP: Final = 0
TRANSACTION: Final = 1
MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
AGAIN: Final = MOVED | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NETWORK_EXCEPTION,
}
"""Codes after which the same request is sent again."""

M = TypeVar("M", bound=Message)


class CoordinatorLink:
    """One key's coordinator, as a client knows it."""

    def __init__(self, client: SimClient, key_type: int, key: str) -> None:
        """`key_type`: GROUP or TRANSACTION."""
        self.client = client
        self._key_type = key_type
        self._key = key
        self._address: tuple[str, int] | None = None

    async def ask(self, request: Message, response: type[M], *, newest: int | None = None) -> M:
        """Send to it once. Raises NoAnswer; `maybe_sent`: the request may have had an effect."""
        if self._address is None:
            self._address = await self._find()
        try:
            return await self.client.ask(self._address, request, response, newest=newest)
        except NoAnswer:
            self._address = None
            raise

    def check_retry(self, code: ErrorCode) -> bool:
        """Process an answer's code; return whether to retry, and look up a moved coordinator again."""
        if code in MOVED:
            self._address = None
        return code in AGAIN

    async def pause(self) -> None:
        """Wait before the next try."""
        await asyncio.sleep(RETRY_S * (0.5 + self.client.rng.random()))

    async def _find(self) -> tuple[str, int]:
        request = FindCoordinatorRequest(key=self._key, key_type=self._key_type, coordinator_keys=[self._key])
        try:
            answer = await self.client.ask_any(request, FindCoordinatorResponse)
        except NoAnswer as error:
            raise NoAnswer(str(error), maybe_sent=False) from error
        found = answer.coordinators[0]
        if found.error_code:
            raise NoAnswer(f"no coordinator: {ErrorCode(found.error_code).name}", maybe_sent=False)
        return found.host, found.port
