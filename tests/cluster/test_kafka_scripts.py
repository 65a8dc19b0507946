"""A working day with Kafka's scripts by their names, typed as Kafka's documentation has them, on a running cluster."""

import asyncio
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvorum.cli.configs.feature_levels import FEATURE_LEVELS
from kvorum.cli.output import Exit
from kvorum.client.wire.cluster_client import ClusterClient
from kvorum.network.addresses import parse_bootstrap
from kvorum.protocol.api import ApiKey
from kvorum.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.cluster.clients import eventually
from tests.cluster.conftest import Start
from tests.cluster.dump_log import JARS, needs_kafka
from tests.cluster.nodes import active_controller, controller_addresses, id_of

KVORUM = [sys.executable, "-m", "kvorum.cli.main"]
SECONDS = 60


class Typed:
    """Commands typed against one cluster."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "KVORUM_"))}
        self.environment = kept | {"XDG_CONFIG_HOME": str(folder)}
        self.folder = folder
        self.bootstrap = bootstrap

    def __call__(self, *words: str, given: str | None = None, code: int = Exit.DONE) -> list[str]:
        """Run a command to its end, which has to have this exit code; return the lines it printed."""
        options: dict[str, Any] = {"cwd": self.folder, "env": self.environment, "capture_output": True, "text": True}
        done = subprocess.run([*KVORUM, *words], input=given, timeout=SECONDS, check=False, **options)
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        return str(done.stdout).splitlines()

    def script(self, name: str, *words: str, given: str | None = None) -> list[str]:
        """Run one of Kafka's scripts."""
        return self(name, "--bootstrap-server", self.bootstrap, *words, given=given)

    def described(self, group: str) -> dict[str, list[str]]:
        """Return current offset, log end offset and lag by partition, as kafka-consumer-groups prints them."""
        lines = self.script("kafka-consumer-groups", "--describe", "--group", group)
        rows = [line.split() for line in lines if line.strip()]
        assert rows[0][:6] == ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
        return {row[2]: row[3:6] for row in rows[1:]}


def test_from_a_topic_to_deleted_records_by_kafkas_names(start_cluster: Start, tmp_path: Path) -> None:
    cluster = start_cluster("single.yaml", "group.initial.rebalance.delay.ms=0")
    typed = Typed(tmp_path, cluster.plan.bootstrap)
    create = ["--create", "--topic", "orders", "--partitions", "2", "--replication-factor", "1"]
    assert typed.script("kafka-topics.sh", *create) == ["Created topic orders."]
    lines = "".join(f"{number % 2}:{number}\n" for number in range(20))
    reader = ["--property", "parse.key=true", "--property", "key.separator=:"]
    typed.script("kafka-console-producer", "--topic", "orders", *reader, given=lines)
    ends = dict(line.rsplit(":", 1) for line in typed.script("kafka-get-offsets", "--topic", "orders"))
    assert sum(int(end) for end in ends.values()) == 20 and list(ends) == ["orders:0", "orders:1"]

    read = ["--topic", "orders", "--group", "pay", "--from-beginning", "--max-messages", "20"]
    shown = typed.script("kafka-console-consumer", *read, "--formatter-property", "print.key=true")
    assert sorted(shown) == sorted(f"{number % 2}\t{number}" for number in range(20))
    lag = typed.described("pay")
    assert lag and all(row == [ends[f"orders:{index}"], ends[f"orders:{index}"], "0"] for index, row in lag.items())
    assert "pay" in typed.script("kafka-consumer-groups", "--list")

    reset = ["--reset-offsets", "--group", "pay", "--all-topics", "--to-earliest"]
    assert [line.split()[-1] for line in typed.script("kafka-consumer-groups", *reset, "--dry-run") if line][1:] == [
        "0"
    ] * len(lag)
    assert typed.described("pay") == lag, "a dry run changes nothing"
    typed.script("kafka-consumer-groups", *reset, "--execute")
    assert {index: row[0] for index, row in typed.described("pay").items()} == dict.fromkeys(lag, "0")

    heading = "GROUP           CONSUMER-ID     HOST            CLIENT-ID       #PARTITIONS     "
    assert typed.script("kafka-consumer-groups", "--describe", "--group", "pay", "--members") == ["", heading]
    delete = ["--bootstrap-server", typed.bootstrap, "--delete-offsets", "--group", "pay", "--topic", "nope"]
    message = typed("kafka-consumer-groups", *delete, "--topic", "orders:0,1", code=Exit.FAILED)
    assert message[0] == "Request succeeded for deleting offsets from group pay."
    rows = [line.split(maxsplit=2) for line in message[3:]]
    assert rows[0] == ["nope", "-", "Error: UNKNOWN_TOPIC_OR_PARTITION"]
    assert [row[:2] for row in rows[1:]] == [["orders", "0"], ["orders", "1"]]

    full = max(range(2), key=lambda index: int(ends[f"orders:{index}"]))
    deleted = [{"topic": "orders", "partition": full, "offset": 4}]
    (tmp_path / "offsets.json").write_text(json.dumps({"partitions": deleted, "version": 1}))
    message = typed.script("kafka-delete-records", "--offset-json-file", "offsets.json")
    assert message[-1] == f"partition: orders-{full}\tlow_watermark: 4"
    at = ["--topic-partitions", f"orders:{full}", "--time", "-2"]
    assert typed.script("kafka-get-offsets", *at) == [f"orders:{full}:4"]
    typed("profile", "add", "here", "-b", typed.bootstrap)
    (row,) = json.loads("\n".join(typed("offsets", "orders", "-p", str(full), "--time", "earliest", "-o", "json")))
    assert row["offset"] == 4

    dumped = typed("dump-log", "--print-data-log", str(Path(cluster.node("node-1").data, f"orders-{full}")))
    assert sum(" payload: " in line for line in dumped) == int(ends[f"orders:{full}"])
    assert typed("metadata", "cat", f"/image/topics/byName/orders/{full}/leader") == ["1"]


def test_records_are_written_and_read_as_fast_as_can_be(start_cluster: Start, tmp_path: Path) -> None:
    cluster = start_cluster("single.yaml", "group.initial.rebalance.delay.ms=0", "transaction.state.log.min.isr=1")
    typed = Typed(tmp_path, cluster.plan.bootstrap)
    typed.script("kafka-topics", "--create", "--topic", "fast", "--partitions", "2")
    props = ["--producer-props", f"bootstrap.servers={typed.bootstrap}", "acks=all", "linger.ms=5"]
    load = ["--topic", "fast", "--num-records", "2000", "--record-size", "100", "--throughput", "-1"]
    lines = typed("kafka-producer-perf-test.sh", *load, *props, "--warmup-records", "500", "--print-metrics")
    assert lines[0] == (
        "Option --producer-props has been deprecated and will be removed in a future version. "
        "Use --command-property instead."
    )
    number = r"\d+(\.\d+)?"
    rest = (
        rf" records sent, {number} records/sec \({number} MB/sec\), {number} ms avg latency, {number} ms max latency, "
    )
    rest += r"\d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99\.9th\."
    assert re.fullmatch(f"2000{rest}", lines[2]) and re.fullmatch(rf"1\d\d\d steady state{rest}", lines[3])
    assert any(line.startswith("librdkafka-producer:txmsgs:") for line in lines)
    in_transactions = ["--payload-monotonic", "--transaction-duration-ms", "50", "--throughput", "1000"]
    lines = typed.script("kafka-producer-perf-test", *load[:2], "--num-records", "200", *in_transactions)
    assert lines[-1].startswith("200 records sent, ")

    lines = typed.script("kafka-consumer-perf-test", "--topic", "fast", "--messages", "2200", "--timeout", "60000")
    assert lines[1].startswith("start.time, end.time, data.consumed.in.MB, ")
    cells = lines[2].split(", ")
    assert (len(cells), cells[4]) == (10, "2200") and float(cells[2]) == pytest.approx(200_490 / 2**20, abs=1e-4)
    pattern = ["--include", "fa.*", "--num-records", "2200", "--hide-header", "--show-detailed-stats"]
    for line in typed.script("kafka-consumer-perf-test", *pattern, "--reporting-interval", "1"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}, 0(, [\d.-]+){8}", line)
    assert "2200" in typed("perf", "consume", "fast", "-n", "2200", "-b", typed.bootstrap)[-1].split(", ")
    lines = typed("perf", "produce", "fast", "-n", "100", "-s", "10", "-b", typed.bootstrap)
    assert lines[-1].startswith("100 records sent, ")


def test_configs_of_controllers_are_requested_from_them_directly(start_cluster: Start, tmp_path: Path) -> None:
    """One that does not lead describes itself and the metadata, and whatever is changed goes to the active one."""
    cluster = start_cluster("three-nodes.yaml")
    typed = Typed(tmp_path, cluster.plan.bootstrap)
    typed.script("kafka-topics", "--create", "--topic", "orders", "--partitions", "1", "--config", "retention.ms=7")
    active = active_controller(cluster)
    other = next(name for name in controller_addresses(cluster) if name != active)
    number, at = id_of(cluster, other), ("--bootstrap-controller", controller_addresses(cluster)[other])
    assert offered_by(controller_addresses(cluster)[other], ApiKey.DESCRIBE_CONFIGS) == (1, 4)

    def described(*words: str) -> list[str]:
        return typed("kafka-configs", *at, "--describe", *words)

    eventually(lambda: described("--topic", "orders")[1:], "the topic's configs at a controller that follows")
    assert described("--topic", "orders") == typed.script("kafka-configs", "--describe", "--topic", "orders")
    typed("kafka-configs", *at, "--alter", "--broker-defaults", "--add-config", "log.retention.ms=9")
    typed("kafka-configs", *at, "--alter", "--broker", str(number), "--add-config", "log.retention.ms=11")
    own = "  log.retention.ms=11 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.retention.ms=11, "
    own += "DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=9, "
    eventually(
        lambda: any(line.startswith(own) for line in described("--broker", str(number))),
        lambda: f"{own}: {described('--broker', str(number))}",
    )
    default = "  log.retention.ms=9 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=9}"
    assert default in described("--broker-defaults")
    everything = described("--broker", str(number), "--all")
    assert any(line.startswith(f"  node.id={number} sensitive=false synonyms={{STATIC_") for line in everything)

    typed("kafka-configs", *at, "--alter", "--broker-logger", str(number), "--add-config", "network=DEBUG")
    levels = described("--broker-logger", str(number))
    for logger, level in (("network", "DEBUG"), ("quorum", "INFO")):
        assert f"  {logger}={level} sensitive=false synonyms={{}}" in levels
    through_broker = typed.script("kafka-configs", "--describe", "--broker-logger", str(number))
    assert "  network=INFO sensitive=false synonyms={}" in through_broker, "another process's"


def offered_by(address: str, key: ApiKey) -> tuple[int, int] | None:
    """Return the versions of an API that the listener at HOST:PORT offers."""

    async def ask() -> tuple[int, int] | None:
        client = ClusterClient(parse_bootstrap(address), client_id="test", chance=random.Random(1))
        try:
            request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
            found = (await client.ask(request, ApiVersionsResponse)).api_keys
        finally:
            await client.close()
        return next(((each.min_version, each.max_version) for each in found if each.api_key == key), None)

    return asyncio.run(ask())


def test_records_go_in_and_out_by_the_habits_of_kcat_and_rpk(start_cluster: Start, tmp_path: Path) -> None:
    cluster = start_cluster("single.yaml", "group.initial.rebalance.delay.ms=0")
    typed = Typed(tmp_path, cluster.plan.bootstrap)

    def kvorum(*words: str, given: str | None = None) -> list[str]:
        return typed(*words, "-b", typed.bootstrap, given=given)

    kvorum("topics", "create", "in", "-p", "2")
    reported = kvorum(
        "produce", "in", "-k", ":", "-Z", "-H", "h=1", "-H", "h=2", "-p", "1", "-v", given="a:1\nb:\n:x\n"
    )
    assert [line.rsplit(" ", 3)[0] for line in reported] == [f"Produced to partition 1 at offset {n}" for n in range(3)]
    shape = ("-e", "-f", "%p %o %k=%s %h\\n", "-Z")
    assert kvorum("consume", "in", "-o", "beginning", *shape) == [
        "1 0 a=1 h=1,h=2",
        "1 1 b=NULL h=1,h=2",
        "1 2 NULL=x h=1,h=2",
    ]
    assert kvorum("consume", "in", "--offset", "-2:end", "-p", "1", *shape)[0].startswith("1 1 b=NULL")
    assert kvorum("consume", "in", "--offset", "1:2", "-p", "1", *shape) == ["1 1 b=NULL h=1,h=2"]
    assert len(kvorum("consume", "in", "--offset", "@-1h:@9999999999", *shape)) == 3
    away = typed("consume", "in", "-b", typed.bootstrap, "--offset", "7", "-e", code=Exit.FAILED)
    assert away == [], "what is not there is an error, and nothing else is read"

    lines = "\n".join(kvorum("consume", "in", "--from-beginning", "-e", "-J")) + "\n"
    kvorum("produce", "out", "-J", given=lines)
    copied = [json.loads(line) for line in kvorum("consume", "out", "--from-beginning", "-e", "-J")]
    given = [json.loads(line) for line in lines.splitlines()]
    kept = ("key", "value", "headers", "timestamp")
    assert [[row[key] for key in kept] for row in copied] == [[row[key] for key in kept] for row in given]

    everything = ("(in|out)", "-r", "-G", "readers", "-e", "--offset", "start")
    assert len(kvorum("consume", *everything)) == 6 and kvorum("consume", *everything) == []
    assert {row[2] for row in typed.described("readers").values()} <= {"0", "-"}

    kvorum("quotas", "set", "--client", "app", "producer_byte_rate=1000000")
    assert kvorum("quotas", "list")[1].split() == ["-", "app", "-", "producer_byte_rate", "1000000.0"]
    shell = kvorum("metadata", "shell", given="cd image/topics/byName/in\npwd\ncat 0/isr\n")
    assert shell == ["/image/topics/byName/in", "[1]"]
    words = ("--topic", "e2e", "--num-records", "20", "--producer-acks", "all", "--record-size", "10")
    made, first, average, percentiles = typed.script("kafka-e2e-latency", *words)
    assert made.startswith('Topic "e2e" does not exist. Will create topic with 1 partition(s)')
    assert first.startswith("0\t") and average.startswith("Avg latency: ") and percentiles.startswith("Percentiles: ")


GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
TOOLS = (
    ("kafka-topics", TOPICS, ["--describe", "--topic", "orders"]),
    ("kafka-consumer-groups", GROUPS, ["--describe", "--group", "pay", "--verbose"]),
    ("kafka-consumer-groups", GROUPS, ["--describe", "--group", "pay", "--state", "--verbose"]),
    ("kafka-configs", "kafka.admin.ConfigCommand", ["--describe", "--topic", "orders", "--all"]),
    ("kafka-log-dirs", "org.apache.kafka.tools.LogDirsCommand", ["--describe", "--topic-list", "orders"]),
    ("kafka-reassign-partitions", REASSIGN, ["--list"]),
    (
        "kafka-reassign-partitions",
        REASSIGN,
        ["--execute", "--reassignment-json-file", "plan.json", "--throttle", "9999"],
    ),
    (
        "kafka-reassign-partitions",
        REASSIGN,
        ["--verify", "--reassignment-json-file", "plan.json", "--preserve-throttles"],
    ),
    ("kafka-reassign-partitions", REASSIGN, ["--verify", "--reassignment-json-file", "plan.json"]),
    ("kafka-reassign-partitions", REASSIGN, ["--cancel", "--reassignment-json-file", "plan.json"]),
    (
        "kafka-reassign-partitions",
        REASSIGN,
        ["--generate", "--topics-to-move-json-file", "topics.json", "--broker-list", "1"],
    ),
    ("kafka-topics", TOPICS, ["--describe", "--under-replicated-partitions"]),
    ("kafka-topics", TOPICS, ["--describe", "--topic", "nope", "--if-exists"]),
    ("kafka-configs", "kafka.admin.ConfigCommand", ["--describe", "--broker", "9"]),
    ("kafka-client-metrics", "org.apache.kafka.tools.ClientMetricsCommand", ["--list"]),
    ("kafka-client-metrics", "org.apache.kafka.tools.ClientMetricsCommand", ["--describe", "--name", "nope"]),
    ("kafka-topics", TOPICS, ["--version"]),
    (
        "kafka-console-consumer",
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        [
            *("--topic", "one", "--from-beginning", "--max-messages", "3", "--partition", "0"),
            *(f"--formatter-property=print.{name}=true" for name in ("key", "offset", "epoch", "delivery", "headers")),
        ],
    ),
    ("kafka-features", FEATURES, ["version-mapping", "--release-version", "4.1-IV1"]),
    ("kafka-features", FEATURES, ["feature-dependencies", "--feature", "eligible.leader.replicas.version=1"]),
)
"""Scripts, and the classes of Apache Kafka's that print the same."""


@needs_kafka
def test_the_scripts_output_equals_apache_kafkas(start_cluster: Start, tmp_path: Path) -> None:
    cluster = start_cluster("single.yaml", "group.initial.rebalance.delay.ms=0")
    typed = Typed(tmp_path, cluster.plan.bootstrap)
    typed.script("kafka-topics", "--create", "--topic", "orders", "--partitions", "2", "--config", "retention.ms=7")
    typed.script("kafka-topics", "--create", "--topic", "one", "--partitions", "1")
    for topic in ("orders", "one"):
        typed.script("kafka-console-producer", "--topic", topic, given="1\n2\n3\n")
    typed.script(
        "kafka-console-consumer", "--topic", "orders", "--group", "pay", "--from-beginning", "--max-messages", "3"
    )
    plan = {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1]}]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    (tmp_path / "topics.json").write_text('{"version": 1, "topics": [{"topic": "orders"}]}')
    for script, tool, words in TOOLS:
        printed = printed_by_kafka(tool, "--bootstrap-server", typed.bootstrap, *words, folder=tmp_path)
        assert typed.script(script, *words) == printed, words
    for more in (["version-mapping"], ["feature-dependencies", *(f"--feature={name}=1" for name in FEATURE_LEVELS)]):
        assert typed("kafka-storage", *more) == printed_by_kafka("kafka.tools.StorageTool", *more)
    written = max(Path(cluster.node("node-1").data).glob("orders-?/*.log"), key=lambda path: path.stat().st_size)
    words = ["--print-data-log", "--files", str(written)]
    assert typed("kafka-dump-log", *words) == printed_by_kafka("org.apache.kafka.tools.DumpLogSegments", *words)


def printed_by_kafka(tool: str, *words: str, folder: Path | None = None) -> list[str]:
    """Return what a tool of Apache Kafka's prints; blanks at the end of a line are Java's padding, as they are ours."""
    command = ["java", "-Dlog4j2.level=OFF", "-cp", f"{JARS}/*", tool, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()
