"""Which requests are looked at, what of their time goes where, and under which name."""

import asyncio

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kvorum.network.context import RequestContext
from kvorum.network.metrics import RegistryMetrics
from kvorum.network.outbox import Outbox, Slot
from kvorum.network.request_times import (
    FULL_MAX,
    STAGES,
    STRIDE,
    RequestTimes,
    Sample,
    metric_name,
)
from kvorum.network.router import Handler
from kvorum.protocol.api import ApiKey
from kvorum.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTransaction
from kvorum.protocol.messages.fetch import FetchRequest, FetchResponse, ReplicaState
from kvorum.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kvorum.protocol.messages.metadata import MetadataRequest
from kvorum.runtime import metric_names as names
from kvorum.runtime.metrics import Histogram, Metrics
from kvorum.runtime.quantiles import WINDOW_MS
from tests.unit.network.network_kit import listener_of, metadata_handler, read_frame, request_frame, run, until

NEAR = 0.046
MEDIAN = "0.50"


def counted(times: RequestTimes, count: int, now_ms: float) -> list[int]:
    """Count requests as connections do; return for how many each stands that was looked at."""
    weights = []
    for _ in range(count):
        times.count += 1
        if times.count >= times.next_at:
            weights.append(times.pick(now_ms))
    return weights


def test_the_first_of_a_minute_are_all_looked_at_and_some_of_the_others() -> None:
    times, many = RequestTimes(Histogram((1.0,))), 100_000
    weights = counted(times, many, 0)
    assert weights[:FULL_MAX] == [1] * FULL_MAX
    others = weights[FULL_MAX:]
    assert len(others) == pytest.approx((many - FULL_MAX) / STRIDE, rel=0.1)
    assert len(set(others)) > STRIDE, "it is not in step with anything"
    assert many - 2 * STRIDE < sum(weights) <= many, "each stands for those that were passed over"
    weights = counted(times, 3 * STRIDE, WINDOW_MS)
    assert len(weights) > STRIDE, "another minute: from the next one that is looked at on, all are"


def sample_of(times: RequestTimes, slot: Slot | None = None, size: int = 300) -> Sample:
    """Came at 1000, its turn at 1003, handled until 1010, answered at 1031, held back for 7 ms."""
    times.count += 1
    return Sample(times, slot, came_ms=1000, start_ms=1003, local_ms=7, answered_ms=1031, throttle_ms=7, size=size)


def medians(times: RequestTimes) -> dict[str, float]:
    return {name: stage.collect(2000)[MEDIAN] for name, stage in zip(STAGES, times.stages, strict=True)}


def test_the_time_of_a_request_is_the_sum_of_its_stages() -> None:
    times = RequestTimes(Histogram((1.0,)))
    sample_of(times).sent(turn_s=1.045, now_s=1.046)
    found = medians(times)
    expected = {
        names.REQUEST_QUEUE_TIME: 3,
        names.LOCAL_TIME: 7,
        names.REMOTE_TIME: 21,
        names.THROTTLE_TIME: 7,
        names.RESPONSE_QUEUE_TIME: 14,
        names.RESPONSE_SEND_TIME: 1,
        names.TOTAL_TIME: 46,
        names.REQUEST_BYTES: 300,
    }
    assert found == {name: pytest.approx(value, rel=NEAR) for name, value in expected.items()}


def test_no_stage_is_negative_though_clocks_are_read_one_after_the_other() -> None:
    times = RequestTimes(Histogram((1.0,)))
    times.count += 1
    sample = Sample(times, None, came_ms=1005, start_ms=1000, local_ms=50, answered_ms=1030, throttle_ms=0, size=1)
    sample.sent(turn_s=1.02, now_s=1.04)
    found = medians(times)
    assert found[names.REQUEST_QUEUE_TIME] == found[names.REMOTE_TIME] == found[names.RESPONSE_QUEUE_TIME] == 0
    assert found[names.LOCAL_TIME] == pytest.approx(30, rel=NEAR)
    assert found[names.TOTAL_TIME] == pytest.approx(40, rel=NEAR)


class NoTransport(asyncio.WriteTransport):
    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: object) -> None:
        pass

    def writelines(self, list_of_data: object) -> None:
        pass


def test_buffered_bytes_of_an_outbox_are_not_counted_as_sent() -> None:
    times, outbox = RequestTimes(Histogram((1.0,))), Outbox(NoTransport(), lambda: 1.1)
    first, second = outbox.reserve(), outbox.reserve()
    for slot in (first, second, None):
        outbox.watch(sample_of(times, slot))
    second.parts = [b"answer"]
    outbox.flush()
    assert times.stages[0].count == 1, "what is behind an answer that is not there waits with it"
    first.parts = [b"answer"]
    outbox.flush()
    assert times.stages[0].count == 3
    outbox.watch(sample_of(times, outbox.reserve()))
    outbox.clear()
    outbox.flush()
    assert times.stages[0].count == 3


def fetch(replica_id: int = -1, state: int = -1) -> FetchRequest:
    return FetchRequest(replica_id=replica_id, replica_state=ReplicaState(replica_id=state))


def test_kafkas_names_report_followers_from_consumers_and_questions_from_additions() -> None:
    assert metric_name("Fetch", fetch()) == "FetchConsumer"
    assert metric_name("Fetch", fetch(replica_id=2)) == metric_name("Fetch", fetch(state=2)) == "FetchFollower"
    asks, adds = (AddPartitionsToTxnTransaction(verify_only=each) for each in (True, False))
    api = "AddPartitionsToTxn"
    assert metric_name(api, AddPartitionsToTxnRequest(transactions=[asks])) == "AddPartitionsToTxnVerification"
    assert metric_name(api, AddPartitionsToTxnRequest(transactions=[asks, adds])) == api
    assert metric_name(api, AddPartitionsToTxnRequest()) == api
    assert metric_name("Fetch", None) == "Fetch"


def reported(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """Return {(name, request, quantile or version or error): value}."""
    return {
        (
            sample.name,
            sample.labels["request"],
            *(v for k, v in sorted(sample.labels.items()) if k != "request"),
        ): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
        if "request" in sample.labels
    }


def test_a_scrape_reports_where_the_time_went() -> None:
    """The first answer is given by the test, and holds the second up, which was there at once."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[InitProducerIdResponse] = loop.create_future()
        metrics = Metrics()
        handler = Handler(ApiKey.INIT_PRODUCER_ID, (0, 5), lambda ctx, request: answer)
        listener = listener_of(handler, metadata_handler(), metrics=RegistryMetrics(metrics, loop.time))
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        frames = [request_frame(InitProducerIdRequest(), 4, 1), request_frame(MetadataRequest(), 13, 2)]
        writer.write(b"".join(frames))
        await until(lambda: ("kvorum_request_seconds_count", "Metadata") in reported(metrics))
        assert (names.TOTAL_TIME, "Metadata", MEDIAN) not in reported(metrics), "it is not sent"
        since = loop.time()
        await until(lambda: loop.time() > since + 0.05)
        answer.set_result(InitProducerIdResponse())
        for _ in frames:
            await read_frame(reader)
        found = reported(metrics)
        waited = 50 * (1 - NEAR)
        assert found[names.REMOTE_TIME, "InitProducerId", MEDIAN] > waited
        assert found[names.RESPONSE_QUEUE_TIME, "InitProducerId", MEDIAN] < waited
        assert found[names.RESPONSE_QUEUE_TIME, "Metadata", MEDIAN] > waited
        assert found[names.REMOTE_TIME, "Metadata", MEDIAN] == 0
        for index, api in enumerate(("InitProducerId", "Metadata")):
            assert found[names.TOTAL_TIME, api, MEDIAN] > waited
            assert found[f"{names.TOTAL_TIME}_count", api] == 1
            assert found[names.REQUEST_BYTES, api, MEDIAN] == pytest.approx(len(frames[index]) - 4, rel=NEAR)
        writer.close()
        await listener.close()

    run(main)


def test_fetch_is_reported_as_a_whole_beside_its_parts() -> None:
    async def main() -> None:
        metrics = Metrics()

        def handle(ctx: RequestContext, request: FetchRequest) -> FetchResponse:
            return FetchResponse()

        handler = Handler(ApiKey.FETCH, (4, 17), handle)
        listener = listener_of(handler, metrics=RegistryMetrics(metrics, asyncio.get_running_loop().time))
        reader, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        for requested in (fetch(), fetch(), fetch(state=2)):
            writer.write(request_frame(requested, 17))
            await read_frame(reader)
        found = reported(metrics)
        for api, count in (("FetchConsumer", 2), ("FetchFollower", 1), ("Fetch", 3)):
            assert found[names.REQUESTS, api, "17"] == count
            assert found[names.REQUEST_ERRORS, api, "NONE"] == count
            assert found[f"{names.LOCAL_TIME}_count", api] == count
            assert found[names.LOCAL_TIME, api, MEDIAN] >= 0
        assert found["kvorum_request_seconds_count", "Fetch"] == 3
        assert ("kvorum_request_seconds_count", "FetchConsumer") not in found
        writer.close()
        await listener.close()

    run(main)


def test_a_connection_that_is_lost_before_its_answer_is_sent_reports_no_times() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[InitProducerIdResponse] = loop.create_future()
        metrics = Metrics()
        handler = Handler(ApiKey.INIT_PRODUCER_ID, (0, 5), lambda ctx, request: answer)
        listener = listener_of(handler, metadata_handler(), metrics=RegistryMetrics(metrics, loop.time))
        _, writer = await asyncio.open_connection("127.0.0.1", await listener.start())
        writer.write(request_frame(InitProducerIdRequest(), 4, 1) + request_frame(MetadataRequest(), 13, 2))
        await until(lambda: ("kvorum_request_seconds_count", "Metadata") in reported(metrics))
        writer.close()
        await until(lambda: listener.connection_count == 0)
        answer.set_result(InitProducerIdResponse())
        await until(lambda: answer.done())
        assert (names.TOTAL_TIME, "Metadata", MEDIAN) not in reported(metrics)
        assert reported(metrics)[f"{names.TOTAL_TIME}_count", "Metadata"] == 1, "it was counted"
        await listener.close()

    run(main)
