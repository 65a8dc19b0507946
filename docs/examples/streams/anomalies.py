"""Find anomalies of this machine: load and memory in topic `metrics`, outliers in topic `anomalies`.

metrics     key: "load" or "memory"    value: {"value": 0.42}
anomalies   key: "load"                value: {"value": 97.0, "mean": 0.4, "deviations": 31.5}

python anomalies.py feed BOOTSTRAP              samples the machine once a second
python anomalies.py find BOOTSTRAP STATE_DIR
"""

import json
import math
import os
import sys
import time
from pathlib import Path

from confluent_kafka import Producer

from kvorum.pipelines.streams import ProcessorContext, Record, Serdes, Streams, StreamsBuilder, StreamsConfig, Topology

SAMPLES_MIN = 10
"""Fewer samples have no outliers."""
DEVIATIONS = 4.0


def sample() -> dict[str, float]:
    """Return the load of the last minute, and the share of memory that is in use."""
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    memory = {words[0]: float(words[1]) for words in lines}
    used = 1 - memory["MemAvailable:"] / memory["MemTotal:"]
    return {"load": os.getloadavg()[0], "memory": used}


class Outliers:
    """Keeps count, mean and squared deviations of each metric (Welford's way), and forwards what is far out."""

    def init(self, context: ProcessorContext) -> None:
        """Take what the runtime offers."""
        self.context = context
        self.kept = context.store("metrics-store")

    def process(self, record: Record) -> None:
        """Judge a value by those before it, then add it to them, unless it is an outlier."""
        value = record.value["value"]
        count, mean, squares = self.kept.get() or (0, 0.0, 0.0)
        deviation = math.sqrt(squares / count) if count else 0.0
        away = abs(value - mean) / max(deviation, 1e-3)
        if count >= SAMPLES_MIN and away > DEVIATIONS:
            self.context.forward({"value": value, "mean": mean, "deviations": away})
            return
        new_mean = mean + (value - mean) / (count + 1)
        self.kept.put((count + 1, new_mean, squares + (value - mean) * (value - new_mean)))


def topology() -> Topology:
    """What SQL cannot say is a Processor."""
    builder = StreamsBuilder()
    metrics = builder.stream("metrics", value_serde=Serdes.json("value DOUBLE"))
    found = metrics.process(
        Outliers, "STRUCT<value: DOUBLE, mean: DOUBLE, deviations: DOUBLE>", stores=("metrics-store",)
    )
    found.to("anomalies")
    return builder.build()


def feed(bootstrap: str) -> None:
    """Send a sample each second."""
    producer = Producer({"bootstrap.servers": bootstrap})
    while True:
        for name, value in sample().items():
            producer.produce("metrics", json.dumps({"value": value}), name)
        producer.flush()
        time.sleep(1)


if __name__ == "__main__":
    if sys.argv[1] == "feed":
        feed(sys.argv[2])
    print(topology().describe())
    config = StreamsConfig(application_id="anomalies", bootstrap_servers=sys.argv[2], state_dir=sys.argv[3])
    streams = Streams(topology(), config)
    streams.start()
    streams.await_termination()
