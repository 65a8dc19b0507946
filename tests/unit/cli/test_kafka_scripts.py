"""Kafka's scripts by their names against a cluster in memory: options, output that scripts parse, refusals."""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kvorum.cli.kafka.java_numbers import java_double
from kvorum.cli.kafka.scripts import SCRIPTS, SCRIPTS_WITHOUT_VERSION, kafka
from kvorum.cli.main import main
from kvorum.cli.output import Exit
from kvorum.protocol.errors import ErrorCode
from kvorum.protocol.messages.create_partitions import CreatePartitionsRequest
from tests.unit.cli.fake_cluster import TOPIC_ID, FakeCluster, Printed, run

HERE = ("--bootstrap-server", "broker:9092")
HERE_BEHIND = ("kafka-cluster", "kafka-storage")
"""Scripts that name the cluster behind the action, or have none."""


@pytest.fixture
def cluster() -> FakeCluster:
    """`orders` with two partitions, the second of which lacks a replica in sync; an internal topic."""
    made = FakeCluster(logs={("orders", 0): (10, 100, {}), ("orders", 1): (0, 50, {}), ("__internal", 0): (0, 0, {})})
    made.configs[2, "orders"] = {"retention.ms": "1000"}
    return made


def script(cluster: FakeCluster, name: str, *words: str) -> Printed:
    return run(cluster, name, *HERE, *words)


def leaves() -> list[tuple[str, ...]]:
    """Return the words of each script, and of each action of one that has them."""
    found: list[tuple[str, ...]] = []
    context = click.Context(main)
    for name in SCRIPTS:
        command = kafka.get_command(context, name)
        assert command is not None
        found.append((name,))
        if isinstance(command, click.Group):
            found += [(name, each) for each in command.list_commands(context)]
    return found


@pytest.mark.parametrize("words", leaves(), ids=" ".join)
def test_every_script_has_help_with_an_example_and_refuses_unknown_options(words: tuple[str, ...]) -> None:
    given = [words[0], *(HERE if len(words) > 1 and words[0] not in HERE_BEHIND else ()), *words[1:]]
    printed = run(FakeCluster(), *given, "--help")
    assert printed.code == Exit.DONE and f"kvorum {words[0]}" in printed.out
    wrong = run(FakeCluster(), *given, "--no-such-option")
    assert (wrong.code, "--no-such-option" in wrong.err) == (Exit.FAILED, True), wrong.err


def test_a_script_knows_no_code_but_1_and_the_commands_of_our_own_do() -> None:
    """Wrong words, nobody there, nothing of that name."""
    for words, code in (
        ("kafka-topics --bootstrap-server 127.0.0.1:1 --list --describe", Exit.FAILED),
        ("kafka-topics --bootstrap-server 127.0.0.1:1 --list", Exit.FAILED),
        ("topics list -b 127.0.0.1:1", Exit.UNREACHABLE),
    ):
        assert CliRunner().invoke(main, words.split()).exit_code == code
    absent = ("--describe", "--topic", "nope")
    assert script(FakeCluster(), "kafka-topics", *absent).code == Exit.FAILED
    assert run(FakeCluster(), "topics", "describe", "nope").code == Exit.NOT_FOUND


def test_a_script_may_end_in_sh_and_is_found_below_kafka(cluster: FakeCluster) -> None:
    plain = script(cluster, "kafka-topics", "--list")
    assert plain.out == "__internal\norders\n"
    assert run(cluster, "kafka-topics.sh", *HERE, "--list") == plain
    assert run(cluster, "kafka", "kafka-topics.sh", *HERE, "--list") == plain
    assert run(cluster, "kafka-nope").code == Exit.USAGE


@pytest.mark.parametrize("prefix", [(), ("kafka",)], ids=["by itself", "below kafka"])
def test_options_of_joptsimple_are_whole_and_may_have_one_dash(cluster: FakeCluster, prefix: tuple[str, ...]) -> None:
    assert run(cluster, *prefix, "kafka-topics", "-bootstrap-server", "b:1", "-list").out == "__internal\norders\n"
    made = run(cluster, *prefix, "kafka-topics.sh", *HERE, "-create", "-topic=new", "--partitions", "2")
    assert (made.code, cluster.topics()["new"]) == (Exit.DONE, [0, 1])
    short = run(cluster, *prefix, "kafka-topics", *HERE, "--lis")
    assert (short.code, "--lis" in short.err) == (Exit.FAILED, True), "as Kafka's tools since 4.0"
    value = run(cluster, *prefix, "kafka-topics", *HERE, "--describe", "--topic", "-list")
    assert "Topic '-list' does not exist" in value.out, "values are left alone"


def test_options_of_argparse4j_may_be_abbreviated_as_long_as_they_are_one(cluster: FakeCluster) -> None:
    where = ("--bootstrap-s", "broker:9092")
    assert run(cluster, "kafka-features", *where, "describe").code == Exit.DONE
    short = run(cluster, "kafka-transactions", *where, "describe-producers", "--top", "orders", "--part", "0")
    assert short.code == Exit.DONE, short.err
    both = run(cluster, "kafka-features", "--bootstrap", "broker:9092", "describe")
    assert (both.code, "--bootstrap" in both.err) == (Exit.FAILED, True)


@pytest.mark.parametrize("name", sorted(set(SCRIPTS) - SCRIPTS_WITHOUT_VERSION))
def test_a_script_names_its_kafka_tool(name: str) -> None:
    assert run(FakeCluster(), name, "--version").out == "4.3.0\n"


def test_scripts_that_have_no_version_in_kafka_have_none() -> None:
    for name in SCRIPTS_WITHOUT_VERSION - {"kafka-transactions"}:
        assert run(FakeCluster(), name, "--version").code == Exit.FAILED
    for option in ("-v", "--version"):
        assert run(FakeCluster(), "kafka-transactions", option).out.startswith("4.3.0 (Kvorum:")


def test_without_a_server_nothing_is_guessed(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KVORUM_BOOTSTRAP", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    printed = run(cluster, "kafka-topics", "--list")
    assert (printed.code, "bootstrap-server" in printed.err) == (Exit.FAILED, True)


def test_a_command_config_is_read_and_unsupported_properties_are_reported(cluster: FakeCluster, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# mine\nbootstrap.servers=broker:9092\nrequest.timeout.ms=1000\nretries=3\n")
    printed = run(cluster, "kafka-topics", "--command-config", str(file), "--list")
    assert printed.code == Exit.DONE and "retries is ignored" in printed.err
    file.write_text("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n")
    refused = script(cluster, "kafka-topics", "--command-config", str(file), "--list")
    assert (refused.code, "sasl.jaas.config: is not set" in refused.err) == (Exit.FAILED, True), refused.err
    file.write_text("request.timeout.ms=soon\n")
    assert script(cluster, "kafka-topics", "--command-config", str(file), "--list").code == Exit.FAILED


def test_topics_are_described_with_tabs(cluster: FakeCluster) -> None:
    assert script(cluster, "kafka-topics", "--describe", "--topic", "orders").lines == [
        f"Topic: orders\tTopicId: {TOPIC_ID}\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: retention.ms=1000",
        "\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\tElr: \tLastKnownElr: ",
        "\tTopic: orders\tPartition: 1\tLeader: 1\tReplicas: 1,2\tIsr: 1\tElr: 2\tLastKnownElr: ",
    ]
    under = script(cluster, "kafka-topics", "--describe", "--under-replicated-partitions")
    assert [line.split("\t")[2] for line in under.lines] == ["Partition: 1"]
    assert script(cluster, "kafka-topics", "--describe", "--under-min-isr-partitions").out == ""
    own = script(cluster, "kafka-topics", "--describe", "--topics-with-overrides")
    assert [line.split("\t")[0] for line in own.lines] == ["Topic: orders"]
    assert script(cluster, "kafka-topics", "--list", "--exclude-internal").lines == ["orders"]
    assert script(cluster, "kafka-topics", "--describe", "--topic", "ord.*", "--topic-id", str(TOPIC_ID)).lines
    none = script(cluster, "kafka-topics", "--describe", "--topic-id", "AAAAAAAAAAAAAAAAAAAAAQ")
    assert (
        none.out
        == "Error while executing topic command : TopicId 'AAAAAAAAAAAAAAAAAAAAAQ' does not exist as expected\n"
    )


def test_reassigning_partitions_are_described_and_not_under_replicated(cluster: FakeCluster) -> None:
    cluster.moving = {("orders", 0): ([3, 1, 2], [3], [2])}
    head, first, second = script(cluster, "kafka-topics", "--describe", "--topic", "orders").lines
    assert "\tReplicationFactor: 2\t" in head
    assert first.split("\t")[4:8] == ["Replicas: 3,1,2", "Isr: 1,2", "Adding Replicas: 3", "Removing Replicas: 2"]
    assert "Adding" not in second
    under = script(cluster, "kafka-topics", "--describe", "--under-replicated-partitions")
    assert [line.split("\t")[2] for line in under.lines] == ["Partition: 1"]
    cluster.refusals["reassignments"] = ErrorCode.UNSUPPORTED_VERSION
    old = script(cluster, "kafka-topics", "--describe", "--topic", "orders")
    assert "\tReplicationFactor: 3\t" in old.lines[0] and "Adding" not in old.out
    cluster.refusals["reassignments"] = ErrorCode.NOT_CONTROLLER
    assert script(cluster, "kafka-topics", "--describe", "--topic", "orders").code == Exit.FAILED


def test_a_topic_is_created_altered_and_deleted(cluster: FakeCluster) -> None:
    created = script(cluster, "kafka-topics", "--create", "--topic", "a.b", "--partitions", "2")
    assert created.lines[-1] == "Created topic a.b." and created.lines[0].startswith("WARNING: Due to limitations")
    again = ("--create", "--topic", "a.b")
    assert "already exists" in script(cluster, "kafka-topics", *again).out
    assert script(cluster, "kafka-topics", *again, "--if-not-exists").code == Exit.DONE
    assert script(cluster, "kafka-topics", "--delete", "--topic", "a.b").code == Exit.DONE
    gone = script(cluster, "kafka-topics", "--delete", "--topic", "a.b")
    assert gone.code == Exit.FAILED
    assert gone.out == "Error while executing topic command : Topic 'a.b' does not exist as expected\n"
    assert script(cluster, "kafka-topics", "--delete", "--topic", "a.b", "--if-exists").code == Exit.DONE


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Command must include exactly one action"),
        (["--list", "--create"], "Command must include exactly one action"),
        (["--create"], 'Missing required argument "[topic]"'),
        (["--create", "--topic", "t", "--partitions", "0"], "The partitions must be greater than 0"),
        (["--create", "--topic", "t", "--replication-factor", "40000"], "between 1 and 32767"),
        (["--create", "--topic", "t", "--replica-assignment", "1:1"], "may not contain duplicate entries"),
        (["--create", "--topic", "t", "--replica-assignment", "1:2,1"], "different replication factor"),
        (["--create", "--topic", "t", "--replica-assignment", "1", "--partitions", "1"], "can't be used with"),
        (["--alter", "--topic", "t"], "Missing required argument"),
        (
            ["--alter", "--topic", "t", "--partitions", "3", "--config", "a=b"],
            'can\'t be used with option "[alter]" (To alter topic configurations, the kafka-configs tool can be used.)',
        ),
        (["--list", "--topic", "("], "is not a regular expression"),
        (["--create", "--topic", "t", "--config", "a"], 'must be in the format "key=val"'),
        (["--describe", "--if-exists"], "--topic or --topic-id is required to describe a topic"),
        *(
            (words, f'Option "[{one}]" can\'t be used with option "[{other}]"')
            for words, one, other in (
                (
                    ["--alter", "--topic", "t", "--replication-factor", "3", "--partitions", "9"],
                    *("replication-factor", "alter"),
                ),
                (["--list", "--partitions", "3"], "partitions", "list"),
                (["--list", "--config", "a=b"], "config", "list"),
                (["--delete", "--topic", "t", "--if-not-exists"], "if-not-exists", "delete"),
                (["--create", "--topic", "t", "--if-exists"], "if-exists", "create"),
                (["--delete", "--topic", "t", "--exclude-internal"], "exclude-internal", "delete"),
                (["--list", "--topics-with-overrides"], "topics-with-overrides", "list"),
                (
                    ["--describe", "--topics-with-overrides", "--unavailable-partitions"],
                    *("unavailable-partitions", "topics-with-overrides"),
                ),
            )
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_usage_of_kafka_topics_is_reported(cluster: FakeCluster, words: list[str], message: str) -> None:
    printed = script(cluster, "kafka-topics", *words)
    assert (printed.code, message in printed.err + printed.out) == (Exit.FAILED, True), printed.err


def test_a_removed_option_is_reported_and_ignored(cluster: FakeCluster) -> None:
    printed = script(cluster, "kafka-topics", "--describe", "--topic", "orders", "--delete-config", "a")
    assert (printed.code, len(printed.lines)) == (Exit.DONE, 3)
    assert printed.err.startswith("delete-config option is no longer supported and deprecated since version 4.0.")


def test_offsets_are_topic_partition_offset(cluster: FakeCluster) -> None:
    assert script(cluster, "kafka-get-offsets").lines == ["__internal:0:0", "orders:0:100", "orders:1:50"]
    assert script(cluster, "kafka-get-offsets", "--topic", "orders", "--time", "-2").lines == [
        "orders:0:10",
        "orders:1:0",
    ]
    assert script(cluster, "kafka-get-offsets", "--topic-partitions", "ord.*:1-").lines == ["orders:1:50"]
    assert script(cluster, "kafka-get-offsets", "--topic", "nope").code == Exit.FAILED
    assert script(cluster, "kafka-get-offsets", "--time", "noon").code == Exit.FAILED
    assert script(cluster, "kafka-get-offsets", "--topic", "a", "--topic-partitions", "b").code == Exit.FAILED


def test_records_are_deleted_by_a_file(cluster: FakeCluster, tmp_path: Path) -> None:
    file = tmp_path / "offsets.json"
    rows = [{"topic": "orders", "partition": 0, "offset": 60}, {"topic": "orders", "partition": 1, "offset": 99}]
    file.write_text(json.dumps({"version": 1, "partitions": rows}))
    printed = script(cluster, "kafka-delete-records", "--offset-json-file", str(file))
    assert printed.code == Exit.FAILED and cluster.logs["orders", 0][0] == 60
    assert printed.lines[-2:] == [
        "partition: orders-0\tlow_watermark: 60",
        "partition: orders-1\terror: OFFSET_OUT_OF_RANGE",
    ]
    for text in ("{", '{"partitions": [{"topic": "t"}]}', json.dumps({"partitions": [rows[0], rows[0]]})):
        file.write_text(text)
        assert script(cluster, "kafka-delete-records", "--offset-json-file", str(file)).code == Exit.FAILED


def test_configs_of_a_topic_in_kafkas_lines(cluster: FakeCluster) -> None:
    words = ("--alter", "--entity-type", "topics", "--entity-name", "orders")
    altered = script(cluster, "kafka-configs", *words, "--add-config", "cleanup.policy=[compact,delete],x=1")
    assert altered.out == "Completed updating config for topic orders.\n"
    assert script(cluster, "kafka-configs", *words, "--delete-config", "x,retention.ms").code == Exit.DONE
    assert script(cluster, "kafka-configs", "--describe", "--topic", "orders").lines == [
        "Dynamic configs for topic orders are:",
        "  cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete}",
    ]
    everything = script(cluster, "kafka-configs", "--describe", "--topic", "orders", "--all")
    assert everything.lines[0] == "All configs for topic orders are:" and "  zz.default=9 " in everything.lines[-1]
    absent = script(cluster, "kafka-configs", "--describe", "--topic", "nothere")
    assert (absent.code, absent.out) == (0, "The topic 'nothere' doesn't exist and doesn't have dynamic config.\n")
    defaults = script(cluster, "kafka-configs", "--alter", "--broker-defaults", "--add-config", "log.retention.ms=1")
    assert defaults.out == "Completed updating default config for brokers in the cluster.\n"
    assert script(cluster, "kafka-configs", "--describe", "--entity-type", "brokers").lines[:2] == [
        "Dynamic configs for broker 1 are:",
        "Default configs for brokers in the cluster are:",
    ]


def test_controllers_describe_and_take_configs(cluster: FakeCluster) -> None:
    cluster.is_of_controllers = True
    cluster.configs[4, "102"] = {"log.retention.ms": "5"}
    cluster.configs[2, "orders"] = {"retention.ms": "7"}

    def at_controllers(*words: str) -> Printed:
        return run(cluster, "kafka-configs", "--bootstrap-controller", "c:101", *words)

    assert at_controllers("--describe", "--entity-type", "brokers", "--entity-name", "102").lines == [
        "Dynamic configs for broker 102 are:",
        "  log.retention.ms=5 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.retention.ms=5}",
    ]
    assert cluster.addresses[-1] == ("c", 102), "it alone knows its own"
    assert at_controllers("--describe", "--broker", "101", "--all").lines[-1].startswith("  zz.default=9 ")
    assert cluster.addresses[-1] == ("c", 101)
    assert at_controllers("--describe", "--entity-type", "brokers").lines == [
        "Dynamic configs for broker 101 are:",
        "Dynamic configs for broker 102 are:",
        "  log.retention.ms=5 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.retention.ms=5}",
        "Default configs for brokers in the cluster are:",
    ]
    assert at_controllers("--describe", "--topic", "orders").lines[1].startswith("  retention.ms=7 ")
    absent = at_controllers("--describe", "--broker", "1")
    assert (absent.code, absent.out) == (0, "The broker '1' doesn't exist and doesn't have dynamic config.\n")
    unlisted = at_controllers("--describe", "--entity-type", "topics")
    assert (unlisted.code, "UNSUPPORTED_VERSION" in unlisted.err) == (Exit.FAILED, True)

    assert at_controllers("--alter", "--broker", "101", "--add-config", "log.retention.ms=6").code == Exit.DONE
    assert cluster.addresses[-1] == ("c", 102), "the active one takes it"
    cluster.configs[8, "101"] = {"network": "INFO"}
    changed = at_controllers("--alter", "--broker-logger", "101", "--add-config", "network=DEBUG")
    assert (changed.code, cluster.addresses[-1]) == (Exit.DONE, ("c", 101))


def test_quotas_of_a_user_a_client_and_their_defaults(cluster: FakeCluster) -> None:
    pair = ("--entity-type", "users", "--entity-default", "--entity-type", "clients", "--entity-name", "app")
    assert (
        script(cluster, "kafka-configs", "--alter", *pair, "--add-config", "producer_byte_rate=2e7").code == Exit.DONE
    )
    assert cluster.quotas == {(("user", None), ("client-id", "app")): {"producer_byte_rate": 2e7}}
    described = script(cluster, "kafka-configs", "--describe", *pair)
    assert (
        described.out == "Quota configs for the default user-principal, client-id 'app' are producer_byte_rate=2.0E7\n"
    )
    assert script(cluster, "kafka-configs", "--describe", "--entity-type", "users").out == ""
    refused = script(cluster, "kafka-configs", "--alter", *pair, "--delete-config", "consumer_byte_rate")
    assert (refused.code, "Invalid config(s): consumer_byte_rate" in refused.err) == (Exit.FAILED, True)
    swapped = ("--entity-type", "users", "--entity-name", "u", "--entity-type", "clients", "--entity-default")
    script(cluster, "kafka-configs", "--alter", *swapped, "--add-config", "producer_byte_rate=1")
    assert (("user", "u"), ("client-id", None)) in cluster.quotas


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--describe"], "At least one entity type must be specified"),
        (["--describe", "--topic", "a", "--entity-type", "topics"], "should not be used in conjunction"),
        (["--describe", "--entity-type", "topics", "--entity-type", "brokers"], "may be specified together"),
        (["--describe", "--broker", "one"], "must be a valid integer broker id"),
        (["--describe", "--ip", "no host"], "must be a valid IP or resolvable host, but it is: no host"),
        (["--alter", "--topic", "t"], "At least one of --add-config"),
        (["--alter", "--topic", "t", "--add-config", "a"], 'in the format "key=val"'),
        (["--alter", "--topic", "t", "--add-config", "a b=1"], "Invalid character found for config key"),
        (["--alter", "--entity-type", "topics", "--add-config", "a=1"], "An entity name must be specified"),
        (["--alter", "--user", "u", "--add-config", "producer_byte_rate=fast"], "Cannot parse quota"),
        (["--alter", "--broker-logger", "1", "--add-config", "root=DEBUG"], "Invalid broker logger(s): root"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_usage_of_kafka_configs_is_reported(cluster: FakeCluster, words: list[str], message: str) -> None:
    printed = script(cluster, "kafka-configs", *words)
    assert (printed.code, message in printed.err) == (Exit.FAILED, True), printed.err


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (1048576.0, "1048576.0"),
        (1e7, "1.0E7"),
        (12345678.0, "1.2345678E7"),
        (-2.5e9, "-2.5E9"),
        (1e-4, "1.0E-4"),
    ],
)
def test_numbers_are_written_as_java_does(value: float, text: str) -> None:
    assert java_double(value) == text


def test_log_directories_are_two_lines_and_json(cluster: FakeCluster) -> None:
    printed = script(cluster, "kafka-log-dirs", "--describe", "--topic-list", "orders", "--broker-list", "1")
    assert printed.lines[1] == "Received log directory information from brokers 1"
    (broker,) = json.loads(printed.lines[2])["brokers"]
    assert [row["partition"] for row in broker["logDirs"][0]["partitions"]] == ["orders-0", "orders-1"]
    assert script(cluster, "kafka-log-dirs", "--describe", "--broker-list", "7").code == Exit.FAILED


def test_elections_speak_kafkas_sentences(cluster: FakeCluster) -> None:
    cluster.logs["orders", 2] = (0, 0, {})
    kind = ("--election-type", "preferred")
    printed = script(cluster, "kafka-leader-election", *kind, "--all-topic-partitions")
    assert printed.code == Exit.FAILED and printed.lines == [
        "Successfully completed leader election (PREFERRED) for partitions orders-1",
        "Valid replica already elected for partitions __internal-0, orders-0",
        "Error completing leader election (PREFERRED) for partition: orders-2: ELIGIBLE_LEADERS_NOT_AVAILABLE: refused",
    ]
    assert script(cluster, "kafka-leader-election", *kind, "--topic", "orders", "--partition", "1").code == Exit.DONE
    for words in ([], ["--topic", "orders"], ["--topic", "t", "--partition", "1", "--all-topic-partitions"]):
        assert script(cluster, "kafka-leader-election", *kind, *words).code == Exit.FAILED


def test_features_are_described_and_changed(cluster: FakeCluster) -> None:
    described = script(cluster, "kafka-features", "describe")
    assert " ".join(described.lines[0].split()) == (
        "Feature: metadata.version SupportedMinVersion: 3.3-IV3 SupportedMaxVersion: 4.3-IV0 "
        "FinalizedVersionLevel: 4.3-IV0 Epoch: 17"
    )
    dry = script(cluster, "kafka-features", "upgrade", "--feature", "transaction.version=2", "--dry-run")
    assert dry.out == "transaction.version can be upgraded to 2.\n" and cluster.features["transaction.version"] == 1
    done = script(cluster, "kafka-features", "upgrade", "--feature", "transaction.version=2")
    assert done.out == "transaction.version was upgraded to 2.\n" and cluster.features["transaction.version"] == 2
    refused = script(cluster, "kafka-features", "upgrade", "--feature", "transaction.version=9")
    assert refused.out == "Could not upgrade transaction.version to 9. no level 9\n" and refused.code == Exit.FAILED
    assert "disabled." in script(cluster, "kafka-features", "disable", "--feature", "transaction.version").out
    assert cluster.features["transaction.version"] == 0
    mapping = script(cluster, "kafka-features", "version-mapping", "--release-version", "4.0-IV3").lines
    assert mapping[:3] == ["metadata.version=25 (4.0-IV3)", "kraft.version=1", "transaction.version=2"]
    for words in (["upgrade"], ["upgrade", "--feature", "a"], ["upgrade", "--release-version", "9.9"], ["disable"]):
        assert script(cluster, "kafka-features", *words).code == Exit.FAILED


def test_the_quorum_is_described_in_both_ways(cluster: FakeCluster) -> None:
    status = script(cluster, "kafka-metadata-quorum", "describe", "--status").lines
    assert status[:3] == ["ClusterId:              C", "LeaderId:               1", "LeaderEpoch:            4"]
    assert status[4:6] == ["MaxFollowerLag:         10", "MaxFollowerLagTimeMs:   1000"]
    assert status[6].startswith(
        f'CurrentVoters:          [{{"id": 1, "directoryId": "{TOPIC_ID}", "endpoints": ["CONTROLLER://h:9"]}}, '
    )
    rows = [line.split() for line in script(cluster, "kafka-metadata-quorum", "describe", "--replication").lines]
    assert [(row[0], row[3], row[-1]) for row in rows[1:]] == [
        ("1", "0", "Leader"),
        ("2", "10", "Follower"),
        ("3", "5", "Observer"),
    ]
    for words in ([], ["--status", "--replication"], ["--status", "--human-readable"]):
        assert script(cluster, "kafka-metadata-quorum", "describe", *words).code == Exit.FAILED


def test_the_cluster_its_endpoints_and_versions(cluster: FakeCluster) -> None:
    assert run(cluster, "kafka-cluster", "cluster-id", *HERE).out == "Cluster ID: C\n"
    endpoints = run(cluster, "kafka-cluster", "list-endpoints", "-b", "broker:9092").lines
    assert endpoints[1].split() == ["1", "broker", "9092", "r1", "unfenced", "broker"]
    versions = script(cluster, "kafka-broker-api-versions").lines
    assert versions[0] == "broker:9092 (id: 1 rack: null isFenced: false) -> ("
    assert "\tProduce(0): 3 to 13 [usable: 13]," in versions and "\tUNKNOWN(999): 1" in versions
    assert "\tFetch(1): UNSUPPORTED," in versions


def test_subscriptions_to_metrics(cluster: FakeCluster) -> None:
    words = ("--alter", "--name", "all", "--interval", "1000", "--metrics", "org.a,org.b")
    assert script(cluster, "kafka-client-metrics", *words).out == "Altered client metrics config for all.\n"
    assert cluster.configs[16, "all"] == {"interval.ms": "1000", "metrics": "org.a,org.b"}
    described = script(cluster, "kafka-client-metrics", "--describe", "--name", "all").lines
    assert described == [
        "Client metrics configs for all are:",
        "  interval.ms=1000",
        "  metrics=org.a,org.b",
        "  zz.default=9",
    ]
    assert script(cluster, "kafka-client-metrics", "--delete", "--name", "all").code == Exit.DONE
    assert cluster.configs[16, "all"] == {}
    assert script(cluster, "kafka-client-metrics", "--alter", "--name", "a", "--interval", "soon").code == Exit.FAILED


def test_transactions_are_tables_with_tabs(cluster: FakeCluster) -> None:
    listed = script(cluster, "kafka-transactions", "list").lines
    assert listed == [
        "TransactionalId\tCoordinator\tProducerId\tTransactionState\t",
        "tx             \t1          \t7         \tOngoing         \t",
    ]
    (row,) = script(cluster, "kafka-transactions", "describe", "--transactional-id", "tx").lines[1:]
    assert [cell.strip() for cell in row.split("\t")][:7] == ["1", "tx", "7", "2", "Ongoing", "60000", "None"]
    words = ("describe-producers", "--topic", "orders", "--partition", "0")
    (row,) = script(cluster, "kafka-transactions", *words).lines[1:]
    assert [cell.strip() for cell in row.split("\t")] == ["7", "2", "-1", "5", "1000", "None", ""]
    hanging = ("find-hanging", "--topic", "orders")
    assert len(script(cluster, "kafka-transactions", *hanging).lines) == 1
    for words in (("find-hanging",), ("abort", "--topic", "orders", "--partition", "0")):
        assert script(cluster, "kafka-transactions", *words).code == Exit.FAILED


def test_partitions_are_added_with_their_replicas(cluster: FakeCluster) -> None:
    words = ["--alter", "--topic", "orders", "--partitions", "3", "--replica-assignment", "1:2,1:2,2:1"]
    assert script(cluster, "kafka-topics", *words).code == Exit.DONE
    (request,) = [each for each in cluster.requested if isinstance(each, CreatePartitionsRequest)]
    (topic,) = request.topics
    assert (topic.name, topic.count) == ("orders", 3)
    assert [each.broker_ids for each in topic.assignments or ()] == [[2, 1]], "of the new partition only"


def test_an_error_of_one_topic_does_not_stop_the_partitions_of_others(cluster: FakeCluster) -> None:
    cluster.logs["payments", 0] = (0, 0, {})
    altered = script(cluster, "kafka-topics", "--alter", "--topic", "orders|payments", "--partitions", "2")
    assert (altered.code, altered.out) == (
        Exit.FAILED,
        "Error while executing topic command : orders has as many\n",
    )
    assert cluster.topics()["payments"] == [0, 1]
