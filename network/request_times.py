"""Durations of requests per stage and API: Kafka's RequestMetrics. Sans-IO.

    received  --requestqueuetimems-->   started         throttled, or after requests without a response
    started   --localtimems-->          handled         decoded, and the handler's own code
    handled   --remotetimems-->         response ready  waited for replicas, data, another broker, the disk
    ready     --responsequeuetimems-->  first           after earlier responses; the client does not keep up
    first     --responsesendtimems-->   sent            written to the kernel, or buffered until it accepts it
    received  --totaltimems-->          sent

Every request is counted. In each minute the first FULL_MAX of a kind (API, version, error code) are measured, and then
one of about STRIDE, weighted accordingly: a request of one record takes about 30 microseconds, and this must not be
noticeable.
"""

from typing import Final

from kvorum.network.lane import LaneRequest
from kvorum.network.outbox import Slot
from kvorum.protocol.api import ApiKey
from kvorum.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kvorum.protocol.messages.fetch import FetchRequest
from kvorum.protocol.schema import Message
from kvorum.runtime import metric_names as names
from kvorum.runtime.metrics import Histogram
from kvorum.runtime.quantiles import WINDOW_MS, Quantiles

FULL_MAX: Final = 1_000
STRIDE: Final = 256
MULTIPLIER, INCREMENT, MODULUS = 1_103_515_245, 12_345, 1 << 31
"""Number of values that vary the stride, so that it is not in phase with clients: always the same ones."""

FETCH, FETCH_CONSUMER, FETCH_FOLLOWER = "Fetch", "FetchConsumer", "FetchFollower"
VERIFICATION: Final = "AddPartitionsToTxnVerification"
SPLIT_APIS: Final = frozenset({int(ApiKey.FETCH), int(ApiKey.ADD_PARTITIONS_TO_TXN)})
"""APIs whose requests have different names; see `metric_name`."""

STAGES: Final = (
    names.REQUEST_QUEUE_TIME,
    names.LOCAL_TIME,
    names.REMOTE_TIME,
    names.THROTTLE_TIME,
    names.RESPONSE_QUEUE_TIME,
    names.RESPONSE_SEND_TIME,
    names.TOTAL_TIME,
    names.REQUEST_BYTES,
)


def metric_name(api: str, request: Message | None) -> str:
    """Return the name under which Kafka exposes requests of an API in SPLIT_APIS."""
    if isinstance(request, FetchRequest):
        replica_id = max(request.replica_id, request.replica_state.replica_id)
        return FETCH_FOLLOWER if replica_id >= 0 else FETCH_CONSUMER
    if isinstance(request, AddPartitionsToTxnRequest):
        transactions = request.transactions
        return VERIFICATION if transactions and all(each.verify_only for each in transactions) else api
    return api


class RequestTimes:
    """State of one kind. On the hot path `count` increases by one; at `next_at` that request is sampled (`pick`)."""

    __slots__ = ("_left_full", "_minute", "_random", "_weight", "count", "next_at", "seconds", "stages")

    def __init__(self, seconds: Histogram) -> None:
        """Look at the first one. `seconds` is of the API: from a request's turn to its answer."""
        self.seconds = seconds
        self.count = 0
        self.next_at = 1
        self.stages = tuple(Quantiles() for _ in STAGES)
        self._minute = -1
        self._left_full = 0
        self._weight = 1
        self._random = 1

    def pick(self, now_ms: float) -> int:
        """Return the weight of the current sample, and choose the next one."""
        weight, minute = self._weight, int(now_ms // WINDOW_MS)
        if minute != self._minute:
            self._minute, self._left_full = minute, FULL_MAX
        if self._left_full > 0:
            self._left_full -= 1
            self._weight = 1
        else:
            self._random = (self._random * MULTIPLIER + INCREMENT) % MODULUS
            self._weight = 1 + (self._random >> 8) % (2 * STRIDE - 1)
        self.next_at = self.count + self._weight
        return weight


class Sample:
    """A sampled request, from its response on: an outbox's Watched."""

    __slots__ = (
        *("_answered_ms", "_bytes", "_came_ms", "_local_ms", "_start_ms", "_throttle_ms", "_times", "_weight"),
        "slot",
    )

    def __init__(
        self,
        times: RequestTimes,
        slot: Slot | None,
        *,
        came_ms: float,
        start_ms: float,
        local_ms: float,
        answered_ms: float,
        throttle_ms: float,
        size: int,
    ) -> None:
        """Wait until the response is sent; `slot` is its slot in the outbox, None if it is sent with the next bytes."""
        self.slot = slot
        self._times = times
        self._weight = times.pick(answered_ms)
        self._came_ms = min(came_ms, start_ms)
        self._start_ms = start_ms
        self._local_ms = min(local_ms, answered_ms - start_ms)
        self._answered_ms = answered_ms
        self._throttle_ms = throttle_ms
        self._bytes = size

    def sent(self, turn_s: float, now_s: float) -> None:
        """See Watched."""
        turn_ms, now_ms = max(turn_s * 1000, self._answered_ms), now_s * 1000
        values = (
            self._start_ms - self._came_ms,
            self._local_ms,
            self._answered_ms - self._start_ms - self._local_ms,
            self._throttle_ms,
            turn_ms - self._answered_ms,
            now_ms - turn_ms,
            now_ms - self._came_ms,
            float(self._bytes),
        )
        for stage, value in zip(self._times.stages, values, strict=True):
            stage.add(value, now_ms, self._weight)


def sample_of_lane(times: RequestTimes, taken: LaneRequest, elapsed_ms: float) -> Sample:
    """Return the same of a request that the fast path has answered, with its time since its turn."""
    start_ms = taken.since_s * 1000
    now_ms = start_ms + elapsed_ms
    return Sample(
        times,
        taken.slot,
        came_ms=taken.came_s * 1000,
        start_ms=start_ms,
        local_ms=(taken.waits_s * 1000 if taken.waits_s else now_ms) - start_ms,
        answered_ms=now_ms,
        throttle_ms=taken.throttle_ms,
        size=taken.size,
    )
