"""Topics read and written by Spark: Kvorum's connector and Spark's own, alternately, in one session.

    python -m bench.spark [--jars build/spark-jars] [--master local[2]] [--rounds 3] [--records 400000] [--only NAME]

One node of `kvorum dev` with a topic of 4 partitions, records of 100 bytes. Of each connector (kvorum, kafka; then
kafka, kvorum; and so on): a batch that is read and discarded; a batch that is read and written, at least once; a
stream that does the same with the existing records; and the latency of a stream's records, from the producer's clock to
the broker's timestamp of the output, at 200 records per second. Also measured, without a counterpart in Spark's: the
exactly-once stream; and a count by key, for several numbers of keys and of partitions of the state. Medians of rounds,
and the ratio. Without jars Kvorum's connector is measured alone.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from bench.systems import Kvorum
from kvorum.pipelines.bridge import register
from kvorum.pipelines.bridge.sink import stream_writer, write_batch
from kvorum.pipelines.plugins import Delivery
from kvorum.pipelines.run.compile import context_of, loaded, start, validate
from kvorum.pipelines.session.build import ROCKSDB
from kvorum.pipelines.session.connector import jars_of

PARTITIONS = 4
SLOW = 2
"""Partitions of what latency is measured on: the real-time trigger wants a core for each."""
VALUE = b"x" * 100
RATE = 200
LATENCY_SECONDS = 15.0
WARM_SECONDS = 8.0
DEADLINE_SECONDS = 300.0
OURS, SPARKS, PYSPARK, LETTERS = "kvorum", "kafka", "pyspark", " with a dead-letter topic"
MEASURES = ("read", "copy", "stream", "exactly-once", "state", "latency", "parquet")
FLIGHT = (
    "year INT, month INT, day INT, dep_time DOUBLE, sched_dep_time INT, dep_delay DOUBLE, arr_time DOUBLE,"
    " sched_arr_time INT, arr_delay DOUBLE, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,"
    " air_time DOUBLE, distance INT, hour INT, minute INT, time_hour TIMESTAMP"
)
PIPELINE = """
name: {name}
source: {{type: topics, bootstrap: "{bootstrap}", topics: [{topic}], value: {{format: json, schema: "{schema}"}}}}
sink: {{type: files, path: "{path}"}}
trigger: available-now
{errors}
"""
DEAD_LETTERS = "errors: {{tolerance: dead-letter, topic: {topic}}}"


class Bench:
    """A cluster, a session, and a count of the topics that were written."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        """Start both, and fill the input."""
        self.folder, self.options = folder, options
        self.system = Kvorum(folder, 1)
        self.system.start()
        self.system.wait_ready()
        self.bootstrap = self.system.bootstrap
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})
        self.made = 0
        self.input = self.topic()
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 20})
        for number in range(options.records):
            while True:
                try:
                    producer.produce(self.input, VALUE, b"%d" % number, number % PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(DEADLINE_SECONDS) == 0
        self.spark = session(options)
        register(self.spark)

    def topic(self, partitions: int = PARTITIONS, **config: str) -> str:
        """Create a separate topic."""
        self.made += 1
        name = f"t{self.made}"
        settings = {key.replace("__", "."): value for key, value in config.items()}
        made = self.admin.create_topics([NewTopic(name, partitions, 1, config=settings)], operation_timeout=30)
        made[name].result(60)
        return name

    def read(self, connector: str) -> float:
        """Return the seconds of a batch that goes nowhere."""
        began = time.perf_counter()
        self.load(connector).write.format("noop").mode("overwrite").save()
        return time.perf_counter() - began

    def load(self, connector: str) -> DataFrame:
        """Return the input as a batch."""
        options = {"kafka.bootstrap.servers": self.bootstrap, "subscribe": self.input}
        return self.spark.read.format(connector).options(**options).load()

    def copy(self, connector: str) -> float:
        """Return the seconds of a batch that is read and written."""
        target = {"kafka.bootstrap.servers": self.bootstrap, "topic": self.topic()}
        began = time.perf_counter()
        rows = self.load(connector).select("key", "value")
        if connector == OURS:
            write_batch(rows, target, delivery="at_least_once", query="copy", batch_id=0)
        else:
            rows.write.format(connector).mode("append").options(**target).save()
        return time.perf_counter() - began

    def stream(self, connector: str) -> float:
        """Return the seconds of a stream over the existing records, at least once."""
        return self.timed(self.query(connector, self.input, self.topic(), available=True))

    def exactly_once(self, _: str) -> float:
        """Return the seconds of the same, exactly once."""
        return self.timed(self.query(OURS, self.input, self.topic(), "exactly_once", available=True))

    def timed(self, start: Callable[[], StreamingQuery]) -> float:
        """Return how long a query takes to its end."""
        began = time.perf_counter()
        assert start().awaitTermination(int(DEADLINE_SECONDS))
        return time.perf_counter() - began

    def query(
        self,
        connector: str,
        source: str,
        target: str,
        delivery: Delivery = "at_least_once",
        *,
        available: bool = False,
        realtime: str | None = None,
    ) -> Callable[[], StreamingQuery]:
        """Return what starts a copying stream."""
        options = {"kafka.bootstrap.servers": self.bootstrap, "subscribe": source, "startingOffsets": "earliest"}
        rows = self.spark.readStream.format(connector).options(**options).load().select("key", "value")
        sink = {"kafka.bootstrap.servers": self.bootstrap, "topic": target}
        checkpoint = str(self.folder / f"checkpoint-{target}")
        if connector == OURS:
            writer = stream_writer(rows, sink, delivery=delivery, query=f"q-{target}", checkpoint=checkpoint)
        else:
            writer = rows.writeStream.format(connector).options(**sink).option("checkpointLocation", checkpoint)
        if available:
            writer = writer.trigger(availableNow=True)
        if realtime is not None:
            writer = writer.outputMode("update").trigger(realTime=realtime)  # type: ignore[call-overload]
        return writer.start

    def state(self, keys: int, partitions: int) -> float:
        """Return the seconds of a count by key, whose state is in RocksDB: so many keys, in so many partitions."""
        self.spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
        options = {"kafka.bootstrap.servers": self.bootstrap, "subscribe": self.input, "startingOffsets": "earliest"}
        options["maxOffsetsPerTrigger"] = str(self.options.records // 4)
        rows = self.spark.readStream.format(OURS).options(**options).load()
        counts = rows.groupBy((F.expr("CAST(CAST(key AS STRING) AS BIGINT)") % keys).alias("key")).count()
        self.made += 1
        writer = counts.writeStream.outputMode("update").format("noop").trigger(availableNow=True)
        return self.timed(writer.option("checkpointLocation", str(self.folder / f"state-{self.made}")).start)

    def flights(self) -> str:
        """Return a new topic with records of 19 JSON fields, the same in each run."""
        topic = self.topic(retention__ms="-1")
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 20})
        for number in range(self.options.records):
            while len(producer) > 50_000:
                producer.poll(0.1)
            producer.produce(topic, flight(number), b"%d" % number, number % PARTITIONS)
        assert producer.flush(DEADLINE_SECONDS) == 0
        return topic

    def parquet(self, topic: str, way: str) -> tuple[float, float]:
        """Return the seconds, and the CPU seconds, of a topic of flights written to Parquet files."""
        self.made += 1
        path = self.folder / f"parquet-{self.made}"
        checkpoint = f"{path}.checkpoint"
        began, cpu = time.perf_counter(), cpu_seconds()
        if way == PYSPARK:
            given = {"kafka.bootstrap.servers": self.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
            records = self.spark.readStream.format(SPARKS).options(**given).load()
            rows = records.select(F.from_json(F.col("value").cast("string"), FLIGHT).alias("v")).select("v.*")
            writer = rows.writeStream.format("parquet").option("checkpointLocation", checkpoint)
            query = writer.trigger(availableNow=True).start(str(path))
        else:
            errors = DEAD_LETTERS.format(topic=self.topic()) if way.endswith(LETTERS) else ""
            name, bootstrap = f"p{self.made}", self.bootstrap
            text = PIPELINE.format(name=name, bootstrap=bootstrap, topic=topic, schema=FLIGHT, path=path, errors=errors)
            file = self.folder / f"{name}.yaml"
            file.write_text(text)
            pipeline = loaded(file)
            context = context_of(pipeline, checkpoint, "spark" if way.startswith(SPARKS) else "kvorum")
            query = start(self.spark, pipeline, validate(pipeline), context)
        assert query.awaitTermination(int(DEADLINE_SECONDS))
        seconds, cpu = time.perf_counter() - began, cpu_seconds() - cpu
        assert self.spark.read.parquet(str(path)).count() == self.options.records
        return seconds, cpu

    def latency(self, connector: str, delivery: Delivery = "at_least_once", realtime: str | None = None) -> str:
        """Return p50 and p99 of a stream, for people to read."""
        source, target = self.topic(SLOW), self.topic(SLOW, **{"message.timestamp.type": "LogAppendTime"})
        query = self.query(connector, source, target, delivery, realtime=realtime)()
        sent = threading.Thread(target=feed, args=(self.bootstrap, source))
        sent.start()
        sent.join()
        found = read_latencies(self.bootstrap, target)
        query.stop()
        ranked = sorted(found)
        return f"p50 {ranked[len(ranked) // 2]:.0f} ms, p99 {ranked[int(len(ranked) * 0.99)]:.0f} ms of {len(ranked)}"

    def close(self) -> None:
        """End both."""
        self.spark.stop()
        self.system.close()


def flight(number: int) -> bytes:
    """Return a record of 19 fields; some have no value, as of flights that were cancelled."""
    late = None if number % 40 == 0 else float(number % 97 - 9)
    fields = {
        "year": 2013, "month": number % 12 + 1, "day": number % 28 + 1, "dep_time": late and 517.0 + number % 900,
        "sched_dep_time": 515 + number % 1200, "dep_delay": late, "arr_time": late and 830.0 + number % 1400,
        "sched_arr_time": 819 + number % 1300, "arr_delay": late and late + 11.0,
        "carrier": ("UA", "AA", "B6", "DL", "EV")[number % 5], "flight": 1 + number % 6000,
        "tailnum": f"N{number % 4043:05d}", "origin": ("EWR", "LGA", "JFK")[number % 3],
        "dest": ("IAH", "MIA", "BQN", "ATL", "ORD", "FLL")[number % 6], "air_time": late and 227.0 + number % 300,
        "distance": 1400 + number % 1000, "hour": 5 + number % 19, "minute": number % 60,
        "time_hour": f"2013-{number % 12 + 1:02d}-{number % 28 + 1:02d}T{5 + number % 19:02d}:00:00Z",
    }  # fmt: skip
    return json.dumps(fields).encode()


def cpu_seconds() -> float:
    """Return the CPU time of this process, of Spark's Java process and of all that it started."""
    ticks, parents, javas = dict[int, float](), dict[int, int](), list[int]()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (entry / "stat").read_text().rpartition(") ")
        except OSError:
            continue
        found = rest.split()
        pid = int(entry.name)
        parents[pid], ticks[pid] = int(found[1]), float(sum(map(int, found[11:15])))
        if name.endswith("(java") and parents[pid] == os.getpid():
            javas.append(pid)
    wanted, left = set[int](), javas
    while left:
        pid = left.pop()
        wanted.add(pid)
        left += [child for child, parent in parents.items() if parent == pid]
    return sum(ticks[pid] for pid in wanted) / os.sysconf("SC_CLK_TCK") + time.process_time()


def feed(bootstrap: str, topic: str) -> None:
    """Send records at this rate, each with its send time."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    began = time.monotonic()
    for number in range(int(RATE * (WARM_SECONDS + LATENCY_SECONDS))):
        time.sleep(max(0.0, began + number / RATE - time.monotonic()))
        producer.produce(topic, b"%d" % (time.time() * 1000), partition=number % SLOW)
        producer.poll(0)
    producer.flush(DEADLINE_SECONDS)


def read_latencies(bootstrap: str, topic: str) -> list[float]:
    """Return the latency of each output record, except those of the first seconds."""
    wanted, warm = int(RATE * (WARM_SECONDS + LATENCY_SECONDS)), int(RATE * WARM_SECONDS)
    settings = {"bootstrap.servers": bootstrap, "group.id": "latency", "isolation.level": "read_committed"}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, each, 0) for each in range(SLOW)])
    found: list[tuple[int, float]] = []
    until = time.monotonic() + DEADLINE_SECONDS
    while len(found) < wanted and time.monotonic() < until:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            sent = int(message.value() or b"0")
            found.append((sent, float(message.timestamp()[1] - sent)))
    consumer.close()
    assert len(found) >= wanted, f"{len(found)} of {wanted} came out"
    return [late for _, late in sorted(found)[warm:]]


def session(options: argparse.Namespace) -> SparkSession:
    """Return a session with the jars there are."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName("kvorum-bench").master(options.master).config("spark.driver.memory", "1g")
    builder = builder.config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    builder = builder.config("spark.driver.extraJavaOptions", "-Xss16m")  # as `kvorum pipelines` sets it
    builder = builder.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
    if options.jars:
        builder = builder.config("spark.jars", ",".join(jars_of(options.jars)))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def compare(bench: Bench, name: str, measure: Callable[[str], float]) -> None:
    """Print the medians of both connectors, in records per second, and their ratio."""
    connectors = [OURS, SPARKS] if bench.options.jars else [OURS]
    rates: dict[str, list[float]] = {connector: [] for connector in connectors}
    for connector in connectors:
        measure(connector)  # warm
    for number in range(bench.options.rounds):
        for connector in connectors if number % 2 == 0 else reversed(connectors):
            rates[connector].append(bench.options.records / measure(connector))
    medians = {connector: statistics.median(found) for connector, found in rates.items()}
    shown = ", ".join(
        f"{connector} {medians[connector]:,.0f}/s ({min(found):,.0f} to {max(found):,.0f})"
        for connector, found in rates.items()
    )
    ratio = f"; {medians[OURS] / medians[SPARKS]:.2f} x" if SPARKS in medians else ""
    print(f"{name}: {shown}{ratio}", flush=True)


def main() -> None:
    """Run the benchmark: see the head of the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jars")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--only", action="append", choices=MEASURES)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-spark-") as folder:
        bench = Bench(Path(folder), options)
        measures = {"read": bench.read, "copy": bench.copy, "stream": bench.stream}
        try:
            for name in options.only or MEASURES:
                if name in measures:
                    compare(bench, name, measures[name])
                elif name == "exactly-once":
                    rates = [options.records / bench.exactly_once(OURS) for _ in range(options.rounds)]
                    print(f"{name}: kvorum {statistics.median(rates):,.0f}/s", flush=True)
                elif name == "parquet":
                    show_parquet(bench)
                elif name == "state":
                    show_states(bench)
                else:
                    show_latencies(bench)
        finally:
            bench.close()


def show_parquet(bench: Bench) -> None:
    """Print seconds and CPU seconds of each way into Parquet, and their ratios to plain PySpark."""
    topic = bench.flights()
    ways = [PYSPARK, OURS, SPARKS, OURS + LETTERS] if bench.options.jars else [OURS, OURS + LETTERS]
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for way in ways:
        bench.parquet(topic, way)  # warm
    for number in range(bench.options.rounds):
        for way in ways if number % 2 == 0 else reversed(ways):
            found[way].append(bench.parquet(topic, way))
    medians = {way: [statistics.median(each) for each in zip(*runs, strict=True)] for way, runs in found.items()}
    for way, (seconds, cpu) in medians.items():
        wall = f"{seconds:.2f} s ({min(found[way])[0]:.2f} to {max(found[way])[0]:.2f})"
        ratio = f"; {seconds / medians[ways[0]][0]:.2f} x, CPU {cpu / medians[ways[0]][1]:.2f} x of {ways[0]}"
        print(f"parquet: {way}: {wall}, CPU {cpu:.2f} s{ratio}", flush=True)


def show_states(bench: Bench) -> None:
    """Print what keys and partitions do to a count by key; four micro-batches."""
    bench.state(1_000, 2)  # warm
    for keys in (1_000, 100_000, bench.options.records):
        for partitions in (1, 2, 8):
            rates = [bench.options.records / bench.state(keys, partitions) for _ in range(min(2, bench.options.rounds))]
            shown = f"{statistics.median(rates):,.0f}/s ({min(rates):,.0f} to {max(rates):,.0f})"
            print(f"state: {keys:,} keys, {partitions} partitions: {shown}", flush=True)


def show_latencies(bench: Bench) -> None:
    """Print a line each for the triggers and deliveries there are."""
    for number in range(min(2, bench.options.rounds)):
        print(f"latency {number}: kvorum, at least once: {bench.latency(OURS)}", flush=True)
        print(f"latency {number}: kvorum, exactly once: {bench.latency(OURS, 'exactly_once')}", flush=True)
        if bench.options.jars:
            print(f"latency {number}: kafka: {bench.latency(SPARKS)}", flush=True)
            print(
                f"latency {number}: kafka, real-time trigger: {bench.latency(SPARKS, realtime='5 minutes')}", flush=True
            )


if __name__ == "__main__":
    main()
