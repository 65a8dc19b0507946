"""Clients' requests forwarded to the active controller, and answered once this broker has published their change.

    request -> Envelope -> controller: decided, committed -> answer, with the offset of the committed metadata
                                                          -> the loader has published that offset -> answer

So a client that changes something at a broker and reads at the same broker finds its change; Apache Kafka answers at
once, and the read may be ahead of the metadata. The wait ends with the request's timeout (of requests that have one)
and after kvorum.metadata.read.your.writes.max.ms; the answer is the same, as the change is committed. Source of the
rest: Kafka's ForwardingManager (KIP-590). docs/decisions/0026.
"""

import asyncio

from kvorum.network.context import RequestContext
from kvorum.protocol.messages.envelope import EnvelopeResponse
from kvorum.protocol.schema import Message
from kvorum.quorum.controller_channel import OLD_LEADER_ANSWER_MS, ControllerChannel
from kvorum.quorum.forwarding import unwrap, wrap
from kvorum.quorum.loader import MetadataLoader
from kvorum.runtime.config import Settings


class Forwarder:
    """Forwards requests to the active controller. One per broker."""

    __slots__ = ("_channel", "_loader", "_settings")

    def __init__(self, channel: ControllerChannel, loader: MetadataLoader, settings: Settings) -> None:
        """Send through this channel; `loader` is this broker's."""
        self._channel = channel
        self._loader = loader
        self._settings = settings

    async def forward(self, ctx: RequestContext, request: Message) -> Message:
        """Return the controller's answer for the client.

        Raises KafkaError: REQUEST_TIMED_OUT if no controller took it in time, else as `forwarding.unwrap`.
        """
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        allowed_ms = sending_ms(request, self._settings.int("request.timeout.ms"))
        envelope = wrap(ctx, request)
        response = await self._channel.request(envelope, timeout_ms=allowed_ms, old_leader_ms=OLD_LEADER_ANSWER_MS)
        assert isinstance(response, EnvelopeResponse)
        answer = unwrap(ctx, request, response)
        wait_ms = self._settings.int("kvorum.metadata.read.your.writes.max.ms")
        wait_ms = published_wait_ms(request, wait_ms, int((loop.time() - began_s) * 1000))
        await self._loader.wait_for_offset(response.metadata_offset, wait_ms)
        return answer


def sending_ms(request: Message, sending_ms_max: int) -> int:
    """Return how long a request may be sent to controllers: no longer than its client waits for the answer.

    A CreateTopics that is sent again later could bring back a topic that the client has deleted meanwhile.
    """
    timeout_ms = getattr(request, "timeout", 0)
    return min(timeout_ms, sending_ms_max) if timeout_ms > 0 else sending_ms_max


def published_wait_ms(request: Message, wait_ms_max: int, elapsed_ms: int) -> int:
    """Return how long the answer of a request may wait for this broker: no longer than the client does."""
    timeout_ms = getattr(request, "timeout", None)
    return wait_ms_max if timeout_ms is None else max(0, min(wait_ms_max, timeout_ms - elapsed_ms))
