"""`make run`: a cluster from configs/three-nodes.yaml, with records of an unmodified client."""

import json
import os
import shutil
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from kvorum.cli.configs.shipped import ConfigFile
from kvorum.cli.output import fail
from kvorum.cli.records.stream import POLL_SECONDS, QUIET, Record, Stream

if TYPE_CHECKING:
    from kvorum.cluster.local.local import LocalCluster

TOPIC = "machine-metrics"
LINES_TOPIC = "lines"
PARTITIONS = 6
REPLICAS_MAX = 3
INTERVAL_SECONDS = 1.0
"""Interval of the machine's metrics: the rate of the stream."""
READ_BACK = 10
DEADLINE_SECONDS = 30.0


@click.command()
@click.option("--from", "source", type=click.Path(exists=True, dir_okay=False), help="Send this file's lines instead.")
@click.option(
    "--config", "config", type=ConfigFile(), default="configs/three-nodes.yaml", show_default=True, help="Cluster file."
)
@click.option("-d", "--dir", "folder", help="Data directory; without it, a temporary one that is removed at the end.")
def quickstart(source: str | None, config: str, folder: str | None) -> None:
    """Start a three-broker cluster, create a topic through the admin HTTP API, send real records and read them back.

    The records are this machine's own metrics as JSON, one key a metric, for as long as it runs. Ctrl-C stops it all.

    \b
    kvorum quickstart
    kvorum quickstart --from access.log
    """
    from kvorum.cli.local.dev import REBALANCE_AT_ONCE, report_stop
    from kvorum.cli.local.folders import create_cluster
    from kvorum.cli.local.up import reader_of
    from kvorum.cluster.local.foreground import run_until_signal

    stopping = threading.Event()
    streams: list[Stream] = []

    def end_stream() -> None:
        """Deliver the producer's pending records before the brokers stop."""
        stopping.set()
        for stream in streams:
            stream.stop()

    with (
        tempfile.TemporaryDirectory(prefix="kvorum-run-", ignore_cleanup_errors=True) as temporary,
        create_cluster(
            folder or temporary,
            reader_of(config, (REBALANCE_AT_ONCE,)),
            port_advice=lambda label: (
                "stop the process that uses it, or: kvorum init my.yaml; change the port there; "
                "kvorum quickstart --config my.yaml"
            ),
        ) as cluster,
    ):

        def begin_stream(outcome: dict[str, str], signals: Sequence[int]) -> None:
            """Create the topic, start the stream, and read its first records back."""
            from confluent_kafka import Producer

            from kvorum.cli.local.dev import report_start

            report_start(cluster, outcome, closing=False, is_temporary=folder is None)
            if any(each != "ready" for each in outcome.values()):
                return
            topic = LINES_TOPIC if source else TOPIC
            create_topic(cluster, topic)
            records = lines_of(source) if source else metrics_forever(stopping)
            stream = Stream(cluster.plan.bootstrap, topic, records, Producer)
            stream.start()
            streams.append(stream)
            read_back(cluster.plan.bootstrap, topic, stream, signals)
            if not signals:
                what_next(cluster, topic)

        code = run_until_signal(cluster, begin_stream, before_stop=end_stream)
        report_stop(cluster, code, is_temporary=folder is None)
        raise SystemExit(code)


def create_topic(cluster: "LocalCluster", topic: str) -> None:
    """Create or update the topic, through PUT /v1/topics/NAME of the admin HTTP API."""
    url = f"{cluster.plan.admin_urls()[0]}/v1/topics/{topic}"
    body = json.dumps(topic_for(sum("broker" in node.roles for node in cluster.plan.nodes)))
    request = urllib.request.Request(url, body.encode(), {"Content-Type": "application/json"}, method="PUT")
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE_SECONDS) as answer:
            json.load(answer)
    except urllib.error.HTTPError as error:
        fail(f"PUT {url} failed: {json.load(error).get('detail', error.reason)}")
    except OSError as error:
        fail(f"PUT {url} failed: {error}; logs: {cluster.paths.folder}/*/admin.log (kept with --dir)")
    click.echo(f"created topic {topic} with PUT {url}; its first records:")


def topic_for(brokers: int) -> dict[str, object]:
    """Return the settings of the topic in a cluster of this number of brokers."""
    replicas = min(REPLICAS_MAX, brokers)
    configs = {"min.insync.replicas": str(max(1, replicas - 1))}
    return {"partitions": PARTITIONS, "replication_factor": replicas, "configs": configs}


def lines_of(path: str) -> Iterator[Record]:
    """Yield each line of a file, without a key."""
    with open(path, "rb") as file:
        for line in file:
            yield None, line.rstrip(b"\r\n")


def metrics_forever(stopping: threading.Event) -> Iterator[Record]:
    """Yield this machine's metrics, a record each, again and again."""
    while not stopping.is_set():
        at = int(time.time() * 1000)
        for name, value in machine_metrics().items():
            yield name.encode(), json.dumps({"metric": name, "value": value, "at_ms": at}).encode()
        stopping.wait(INTERVAL_SECONDS)


def machine_metrics() -> dict[str, float]:
    """Read load, memory, processor time and network counters from /proc."""
    found: dict[str, float] = {}
    with open("/proc/loadavg", encoding="ascii") as file:
        found["load.1m"], found["load.5m"], found["load.15m"] = (float(word) for word in file.read().split()[:3])
    with open("/proc/meminfo", encoding="ascii") as file:
        memory = dict(line.split(":", 1) for line in file)
    for name in ("MemTotal", "MemAvailable", "Cached", "Dirty"):
        found[f"memory.{name}.kb"] = float(memory[name].split()[0])
    with open("/proc/stat", encoding="ascii") as file:
        words = file.readline().split()
    for name, ticks in zip(("user", "nice", "system", "idle", "iowait"), words[1:], strict=False):
        found[f"cpu.{name}.ticks"] = float(ticks)
    with open("/proc/net/dev", encoding="ascii") as file:
        for line in file.readlines()[2:]:
            device, _, counts = line.partition(":")
            numbers = counts.split()
            found[f"network.{device.strip()}.received.bytes"] = float(numbers[0])
            found[f"network.{device.strip()}.sent.bytes"] = float(numbers[8])
    return found


def read_back(bootstrap: str, topic: str, stream: Stream, signals: Sequence[int]) -> None:
    """Read the first records with an unmodified client and show them: fewer, if the stream, or all, ends before."""
    from confluent_kafka import Consumer, TopicPartition

    options = {"bootstrap.servers": bootstrap, "group.id": "quickstart", "enable.auto.commit": False}
    consumer = Consumer(options | QUIET)
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        deadline = time.monotonic() + DEADLINE_SECONDS
        shown = 0
        while shown < READ_BACK and not signals and time.monotonic() < deadline:
            if not stream.is_alive() and shown >= stream.acknowledged:
                break
            message = consumer.poll(POLL_SECONDS)
            if message is None:
                continue
            if (error := message.error()) is not None:
                fail(f"the records cannot be read back: {error.str()}")
            value = (message.value() or b"").decode(errors="replace")
            click.echo(f"    {topic}-{message.partition()} offset {message.offset()}: {value[:100]}")
            shown += 1
    finally:
        consumer.close()
    if signals:
        return
    if not stream.is_alive() and not stream.acknowledged:
        click.echo("kvorum: no record was sent: the file has no lines, or none could be delivered", err=True)
    elif not shown:
        fail(f"no record of {topic} was read within {DEADLINE_SECONDS:.0f} s; kvorum consume {topic} -b {bootstrap}")


def what_next(cluster: "LocalCluster", topic: str) -> None:
    """Print the next steps."""
    bootstrap, folder = cluster.plan.bootstrap, cluster.paths.folder
    click.echo(f"\nRecords flow into {topic}. Open the web console: {cluster.plan.admin_urls()[0]}/")
    click.echo("In another terminal:")
    for line in (
        *activation(),
        f"export KVORUM_BOOTSTRAP={bootstrap}",
        f"kvorum consume {topic} --from-beginning",
        f"kvorum topics describe {topic}",
        f"kvorum nodes kill node-2 --dir {folder}      # no acknowledged record is lost",
        f"kvorum nodes start node-2 --dir {folder}",
        f"kvorum chaos serve --dir {folder}            # faults from a browser (docs/chaos.md)",
        f'kcat -b "$KVORUM_BOOTSTRAP" -C -t {topic} -o end     # or any other Kafka client',
    ):
        click.echo(f"  {line}")
    click.echo("Next steps: docs/quickstart.md in the checkout.")
    click.echo("Press Ctrl-C to stop everything.")


def activation() -> list[str]:
    """Return the shell command that makes `kvorum` available, if necessary: the environment of this process."""
    folder = os.path.dirname(sys.executable)
    if shutil.which("kvorum") is not None or not os.path.exists(os.path.join(folder, "activate")):
        return []
    return [f". {os.path.join(folder, 'activate')}"]
