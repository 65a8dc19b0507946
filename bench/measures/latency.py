"""Time from produce() to the record's arrival at a consumer, one by one: acks=all, alone, under load, and
beside cleaner and retention.

For confluent-kafka this process measures in microseconds. Kafka's own EndToEndLatency has whole milliseconds except
its average, which is also reported.
"""

import contextlib
import time
from collections.abc import Iterator
from functools import partial

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from bench import tools
from bench.beds import Bed
from bench.child import Child
from bench.measures.produce import SMALL, THREE
from bench.quantiles import quantile
from bench.rows import Case, Figures, Measure, Row, less, more
from bench.stalled import StalledError

RECORDS, WARM_UP_SHARE = 5_000, 10
RECORD_SECONDS = 30.0
QUANTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
MUST, AIM = 1.0, 0.5
CLEANING = {
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "1000",
}
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "4194304", "min.cleanable.dirty.ratio": "0.01"}
RETAINED = {"retention.bytes": "8388608", "segment.bytes": "4194304"}
CHURN_RATE, CHURN_KEYS, CHURN_SIZE = 10_000, 20_000, 200
"""Records a second to each of the two topics: 2 MB/s, a segment every two seconds."""
CLEANED_SECONDS = 60.0
LOOK_SECONDS = 0.1


def failed(error: KafkaError | None, _message: Message) -> None:
    """Process a delivery report."""
    if error is not None:
        raise StalledError(f"a record was not acknowledged: {error}")


def round_trips(bed: Bed, topic: str, count: int) -> list[float]:
    """Send one record after the other to a topic of one partition; return how long each took, in seconds."""
    servers = {"bootstrap.servers": bed.system.bootstrap, "log_level": 0}
    producer = Producer({**servers, "acks": "all", "linger.ms": 0})
    consumer = Consumer({**servers, "group.id": "latency", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found = []
    try:
        for number in range(count):
            value = b"%0*d" % (SMALL, number)
            began = time.perf_counter()
            producer.produce(topic, value, partition=0, on_delivery=failed)
            message = consumer.poll(RECORD_SECONDS)
            found.append(time.perf_counter() - began)
            if message is None or message.error() is not None or message.value() != value:
                raise StalledError(f"record {number} does not come back: {message and message.error()}")
            producer.poll(0)
    finally:
        producer.flush(RECORD_SECONDS)
        consumer.close()
    return found


def latencies(bed: Bed, title: str) -> Figures:
    """Return the quantiles; the first records do not count."""
    count = bed.scale.count(RECORDS, 50)
    with bed.topic() as topic:
        found = round_trips(bed, topic, count + count // WARM_UP_SHARE)[-count:]
    return {f"{title}, {name}": quantile(found, share) * 1000 for name, share in QUANTILES.items()}


def rows(title: str) -> tuple[Row, ...]:
    """Return the rows of the quantiles."""
    return tuple(less(f"{title}, {name}", "ms", MUST, AIM) for name in QUANTILES)


def idle(title: str) -> Case:
    """Return the case without anything else."""
    return Case(name=title, rows=rows(title), run=partial(latencies, title=title))


def by_tool(title: str) -> Case:
    """Return the case of Kafka's own tool."""

    def run(bed: Bed) -> Figures:
        with bed.topic() as topic:
            found = tools.end_to_end(bed.system.bootstrap, topic, bed.scale.count(RECORDS, 50), SMALL)
        return {f"{title}, average": found.average_ms}

    return Case(name=title, rows=(less(f"{title}, average", "ms"),), run=run, java=True)


LOADED = "end-to-end latency, 1 node, another client at half the maximum rate"
OWN = "end-to-end latency, 1 node, another client at half of its own maximum rate"


def rate_of(title: str) -> str:
    """Return the name of the row with the other client's rate."""
    return f"{title}: that half"


def loaded(bed: Bed, title: str) -> Figures:
    """Measure latencies beside a producer to 6 partitions.

    Each system's maximum is measured once, in its warm-up. LOADED has both under the same load, half of the slower
    one's maximum: else the faster one would have more load, and with busy cores the clients would wait for each other.
    (The warm-up of the first system knows only its own maximum.) OWN has half of each system's own maximum, without
    targets.
    """
    with bed.topic(6) as other:
        if bed.kind not in bed.maxima:
            records = bed.scale.count(2_000_000, 2_000)
            found = tools.produce(
                bed.system.bootstrap, other, records, SMALL, {"acks": "all"}, warm_up=records // WARM_UP_SHARE
            )
            bed.maxima[bed.kind] = found.records_per_second
        rate = (min(bed.maxima.values()) if title == LOADED else bed.maxima[bed.kind]) / 2
        with tools.producing(bed.system.bootstrap, other, rate, SMALL, {"acks": "all"}):
            time.sleep(bed.scale.seconds(3.0))  # the JVM warms up
            return {**latencies(bed, title), rate_of(title): rate}


def loaded_case(title: str, has_targets: bool) -> Case:
    """Return the case of a load."""
    quantiles = rows(title) if has_targets else tuple(less(f"{title}, {name}", "ms") for name in QUANTILES)
    rate = more(rate_of(title), "records/s")
    return Case(name=title, rows=(*quantiles, rate), run=partial(loaded, title=title), java=True)


CLEANED = "end-to-end latency, 1 node, cleaner and retention at work"


@contextlib.contextmanager
def churning(bed: Bed) -> Iterator[None]:
    """Writers of a compacted topic and of one that is cut off, as long as this is open; both have been cleaned once."""
    compacted, cut = bed.make_topic(1, COMPACTED), bed.make_topic(1, RETAINED)
    arguments = (str(10**9), str(CHURN_SIZE), str(CHURN_RATE), str(CHURN_KEYS))
    writers = [Child("bench.clients.writer", bed.system.bootstrap, topic, *arguments) for topic in (compacted, cut)]
    try:
        for writer in writers:
            writer.expect(RECORD_SECONDS)
            writer.tell()
        wait_cleaned(bed, compacted, cut)
        yield
        if not all(writer.is_running for writer in writers):
            raise StalledError("a writer has ended")
    finally:
        for writer in writers:
            writer.close()
        for topic in (compacted, cut):
            bed.drop_topic(topic)


def wait_cleaned(bed: Bed, compacted: str, cut: str) -> None:
    """Wait until the cleaner has noted the one topic and the other begins after 0. Raises StalledError."""
    checkpoint = bed.system.data(1) / "cleaner-offset-checkpoint"
    consumer = Consumer({"bootstrap.servers": bed.system.bootstrap, "group.id": "look", "log_level": 0})
    deadline = time.monotonic() + CLEANED_SECONDS
    try:
        while time.monotonic() < deadline:
            is_cleaned = checkpoint.exists() and f"{compacted} 0 " in checkpoint.read_text()
            low, _ = consumer.get_watermark_offsets(TopicPartition(cut, 0), timeout=RECORD_SECONDS, cached=False)
            if is_cleaned and low > 0:
                return
            time.sleep(LOOK_SECONDS)
    finally:
        consumer.close()
    raise StalledError("nothing is cleaned")


def beside_cleaner(bed: Bed) -> Figures:
    """Time records meanwhile."""
    with churning(bed):
        return latencies(bed, CLEANED)


IDLE_1, IDLE_3 = "end-to-end latency, 1 node", "end-to-end latency, 3 nodes, RF 3"
ONE_NODE = Measure(
    name="latency",
    settings={},
    cases=(
        idle(IDLE_1),
        by_tool(f"{IDLE_1}, EndToEndLatency"),
        loaded_case(LOADED, has_targets=True),
        loaded_case(OWN, has_targets=False),
    ),
)
THREE_NODES = Measure(
    name="latency-replicated",
    nodes=3,
    settings=THREE,
    cases=(idle(IDLE_3), by_tool(f"{IDLE_3}, EndToEndLatency")),
)
WITH_CLEANER = Measure(
    name="latency-cleaner",
    settings=CLEANING,
    cases=(Case(name=CLEANED, rows=rows(CLEANED), run=beside_cleaner),),
)
