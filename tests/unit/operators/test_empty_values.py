"""An empty value, as of a shell variable that is not set, changes nothing that was not named.

The project's own commands refuse it. Kafka's scripts do as Apache Kafka 4.3.0's: TopicCommand, ConsumerGroupCommand,
ConfigCommand, ReassignPartitionsCommand, LeaderElectionCommand, DeleteRecordsCommand.
"""

import copy
import json
import re
from pathlib import Path

import pytest

from kvorum.cli.output import Exit
from kvorum.cli.text_values import EMPTY_IS_A_VALUE, TextGuard
from kvorum.pipelines.spec import SpecError, loads
from kvorum.protocol.messages import delete_groups, delete_topics, describe_groups, incremental_alter_configs
from tests.unit.admin.fake import Client, call, with_fake
from tests.unit.admin.fake import FakeCluster as HttpCluster
from tests.unit.admin.test_groups_routes import fill
from tests.unit.cli.command_tree import leaves, takes_text
from tests.unit.cli.fake_cluster import TOPIC, FakeCluster, Printed, run

SERVER = ("--bootstrap-server", "broker:9092")
OFFSETS, BROKER = "__consumer_offsets", 4
READING = re.compile("Metadata|Describe|List|Find|OffsetFetch|ApiVersions")
SCRIPT_ROWS = [
    # What the script is given; its exit code; which requests it may send all the same.
    ("kafka-topics --delete --topic ''", 0, ()),
    ("kafka-topics --delete --topic '' --if-exists", 0, ()),
    ("kafka-topics --delete --topic ,", 1, ()),
    ("kafka-topics --alter --topic '' --partitions 5", 0, ()),
    ("kafka-topics --delete --topic orders --partitions 0", 1, ()),
    ("kafka-topics --describe --topic '' --if-exists", 0, ()),
    ("kafka-consumer-groups --delete --group ''", 1, ("DeleteGroupsRequest",)),
    ("kafka-consumer-groups --delete --group payments --state", 1, ()),
    ("kafka-consumer-groups --delete --group payments --to-offset 0", 1, ()),
    ("kafka-consumer-groups --delete-offsets --group payments --topic ''", 1, ()),
    ("kafka-consumer-groups --reset-offsets --group payments --topic '' --to-earliest --execute", 1, ()),
    ("kafka-consumer-groups --reset-offsets --group payments --topic orders --by-duration '' --execute", 1, ()),
    ("kafka-consumer-groups --reset-offsets --group payments --topic orders --from-file '' --execute", 1, ()),
    ("kafka-configs --alter --entity-type topics --entity-name '' --add-config retention.ms=1", 1, ()),
    ("kafka-configs --alter --topic '' --add-config retention.ms=1", 1, ()),
    ("kafka-configs --alter --group '' --add-config consumer.session.timeout.ms=1", 1, ()),
    ("kafka-configs --alter --broker-logger '' --add-config root=DEBUG", 1, ()),
    ("kafka-configs --alter --topic orders --add-config ''", 1, ()),
    ("kafka-configs --alter --topic orders --delete-config ''", 1, ()),
    ("kafka-delete-records --offset-json-file {empty}", 1, ()),
    ("kafka-delete-records --offset-json-file ''", 1, ()),
    ("kafka-reassign-partitions --execute --reassignment-json-file {empty}", 1, ()),
    ("kafka-reassign-partitions --generate --topics-to-move-json-file {topics} --broker-list ''", 1, ()),
    ("kafka-reassign-partitions --generate --topics-to-move-json-file {empty} --broker-list 1", 1, ()),
    ("kafka-leader-election --election-type preferred --path-to-json-file {empty}", 0, ("ElectLeadersRequest",)),
    ("kafka-leader-election --election-type preferred --topic ''", 1, ()),
    ("kafka-client-metrics --alter --name '' --interval 1000", 0, ("IncrementalAlterConfigsRequest",)),
    ("kafka-features upgrade --release-version ''", 1, ()),
    ("kafka-get-offsets --topic ''", 1, ()),
    ("kafka-producer-perf-test --topic t --num-records 1 --throughput -1 --record-size 1 --transactional-id ''", 1, ()),
    ("kafka-console-consumer --topic t --group ''", 1, ()),
    ("kafka-topics --delete --topic orders --bootstrap-server ''", 1, ()),
    ("kafka-topics --delete --topic orders --profile ''", 1, ()),
]
OWN_ROWS = [
    "topics delete ''",
    "topics delete orders '' --if-exists",
    "topics alter '' -p 5",
    "topics alter orders --delete-config ''",
    "topics create ''",
    "topics create new --replica-assignment ''",
    "topics list ''",
    "topics delete orders -b ''",
    "topics delete orders --profile ''",
    "groups delete ''",
    "groups delete payments ''",
    "groups delete-offsets payments --topic ''",
    "groups delete-offsets '' --topic orders",
    "groups reset-offsets '' --topic orders --to-earliest --execute",
    "groups reset-offsets payments --topic '' --to-earliest --execute",
    "groups reset-offsets payments --topic orders --to-datetime '' --execute",
    "groups reset-offsets payments --topic orders --by-duration '' --execute",
    "groups reset-offsets payments --from-file '' --execute",
    "groups remove-members payments --instance ''",
    "groups remove-members payments --member ''",
    "configs alter topics '' --set retention.ms=1",
    "configs alter brokers '' --set log.retention.ms=1",
    "configs alter users '' --set producer_byte_rate=1",
    "configs alter users alice --client '' --set producer_byte_rate=1",
    "configs alter topics orders --set ''",
    "configs alter topics orders --delete ''",
    "quotas set --user '' producer_byte_rate=1",
    "quotas delete --client '' producer_byte_rate",
    "quotas delete --client app ''",
    "delete-records ''",
    "delete-records :0:-1",
    "delete-records -f ''",
    "leader-election ''",
    "leader-election --unclean -f ''",
    "reassign generate --broker-list '' --topics-to-move-json-file {topics}",
    "reassign execute --reassignment-json-file ''",
    "log-dirs --brokers ''",
    "log-dirs --brokers ,",
    "features upgrade --release ''",
    "transactions force-terminate --transactional-id ''",
    "offsets '' --time earliest",
    "consume orders -g ''",
    "produce ''",
    "nodes kill ''",
    "down --dir ''",
    "status --dir ''",
    "dev --dir ''",
    "up {topics} --dir ''",
    "format {topics} --cluster-id ''",
    "profile remove ''",
]


@pytest.fixture
def cluster() -> FakeCluster:
    """Two topics and two internal ones, groups with offsets, configs and quotas, all defaults among them."""
    made = FakeCluster(
        logs={(name, 0): (0, 10, {}) for name in ("orders", "refunds", OFFSETS, "__transaction_state")},
        groups={
            name: describe_groups.DescribedGroup(group_id=name, group_state="Empty", protocol_type="consumer")
            for name in ("payments", "billing")
        },
        committed={"payments": {("orders", 0): 5}, "billing": {("orders", 0): 6}},
    )
    made.configs = {(TOPIC, "orders"): {"retention.ms": "9"}, (BROKER, ""): {"log.retention.ms": "9"}}
    made.quotas = {(("user", None),): {"producer_byte_rate": 9.0}}
    return made


def given(text: str, folder: Path) -> list[str]:
    """Return the words of a row."""
    (folder / "empty.json").write_text(json.dumps({"version": 1, "partitions": [{"topic": "", "partition": 0}]}))
    (folder / "topics.json").write_text(json.dumps({"version": 1, "topics": [{"topic": "orders"}]}))
    text = text.format(empty=folder / "empty.json", topics=folder / "topics.json")
    return ["" if word == "''" else word for word in text.split()]


def changed_nothing(cluster: FakeCluster, words: list[str], allowed: tuple[str, ...] = ()) -> Printed:
    """Run a command; all that the cluster has is as before, and no request but those allowed would change anything."""

    def state() -> object:
        return copy.deepcopy([cluster.logs, cluster.groups, cluster.committed, cluster.quotas, dict(cluster.configs)])

    before = state()
    printed = run(cluster, *words, given=b"")
    cluster.configs = {key: found for key, found in cluster.configs.items() if found}
    changing = {type(each).__name__ for each in cluster.requested if not READING.search(type(each).__name__)}
    assert changing <= set(allowed), changing
    if "IncrementalAlterConfigsRequest" not in allowed:
        assert state() == before
    return printed


@pytest.mark.parametrize(("text", "code", "allowed"), SCRIPT_ROWS, ids=[row[0] for row in SCRIPT_ROWS])
def test_a_script_of_kafka_changes_nothing_where_its_option_is_empty(
    cluster: FakeCluster, tmp_path: Path, text: str, code: int, allowed: tuple[str, ...]
) -> None:
    words = given(text, tmp_path)
    printed = changed_nothing(cluster, [*words[:1], *SERVER, *words[1:]], allowed)
    assert printed.code == code, printed


@pytest.mark.parametrize("text", OWN_ROWS)
def test_a_command_of_the_project_refuses_an_empty_value_in_a_line(
    cluster: FakeCluster, tmp_path: Path, text: str
) -> None:
    printed = changed_nothing(cluster, given(text, tmp_path))
    assert printed.code == Exit.USAGE and not printed.out, printed
    assert not any("Traceback" in line for line in printed.err.splitlines())
    assert cluster.requested == []


@pytest.mark.parametrize("words", [("topics", "delete", "orders"), ("kafka-topics", "--delete", "--topic", "orders")])
@pytest.mark.parametrize("variable", ["KVORUM_BOOTSTRAP", "KVORUM_PROFILE"])
def test_an_address_that_is_set_and_empty_is_no_other_cluster(
    cluster: FakeCluster, words: tuple[str, ...], variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert run(cluster, "profile", "add", "production", "-b", "production:9092").code == Exit.DONE
    assert run(cluster, "profile", "use", "production").code == Exit.DONE
    monkeypatch.setenv(variable, "")
    printed = changed_nothing(cluster, list(words))
    assert printed.code in (Exit.USAGE, Exit.FAILED) and variable in printed.err


def test_a_folder_that_is_set_and_empty_is_not_the_default_one(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVORUM_DIR", "")
    printed = run(cluster, "down")
    assert (printed.code, "KVORUM_DIR" in printed.err) == (Exit.USAGE, True)


@pytest.mark.parametrize("pattern", [".*", "__.*|orders", "orders,(__consumer_offsets)"])
def test_a_pattern_takes_no_internal_topic(cluster: FakeCluster, pattern: str) -> None:
    printed = run(cluster, "kafka-topics", *SERVER, "--delete", "--topic", pattern)
    assert (printed.code, OFFSETS in printed.err) == (Exit.DONE, True)
    assert "orders" not in cluster.topics() and {OFFSETS, "__transaction_state"} <= cluster.topics().keys()


def test_a_pattern_of_internal_topics_only_is_refused(cluster: FakeCluster) -> None:
    printed = changed_nothing(cluster, ["kafka-topics", *SERVER, "--delete", "--topic", "__.*"])
    assert (printed.code, "name each of them exactly" in printed.out) == (Exit.FAILED, True)
    changed_nothing(cluster, ["kafka-topics", *SERVER, "--alter", "--topic", "__.*", "--partitions", "99"])


@pytest.mark.parametrize("named", [OFFSETS, f"orders,{OFFSETS}", f"{OFFSETS}|orders"])
def test_an_internal_topic_that_is_named_is_deleted(cluster: FakeCluster, named: str) -> None:
    assert run(cluster, "kafka-topics", *SERVER, "--delete", "--topic", named).code == Exit.DONE
    assert OFFSETS not in cluster.topics() and "__transaction_state" in cluster.topics()


def test_kafka_configs_takes_an_empty_name_for_the_default_as_kafka_and_warns(cluster: FakeCluster) -> None:
    """ConfigCommand has no other sign for it than the empty name."""
    words = ("--alter", "--entity-type", "brokers", "--entity-name", "", "--add-config", "log.retention.ms=1")
    printed = run(cluster, "kafka-configs", *SERVER, *words)
    assert (printed.code, "default of all brokers" in printed.err) == (Exit.DONE, True)
    (altered,) = (
        each for each in cluster.requested if type(each) is incremental_alter_configs.IncrementalAlterConfigsRequest
    )
    assert [each.resource_name for each in altered.resources] == [""]
    words = ("--alter", "--broker-defaults", "--add-config", "log.retention.ms=2")
    assert "empty" not in run(cluster, "kafka-configs", *SERVER, *words).err


def test_deleting_the_group_with_the_empty_name_deletes_only_that_group(cluster: FakeCluster) -> None:
    changed_nothing(cluster, ["kafka-consumer-groups", *SERVER, "--delete", "--group", ""], ("DeleteGroupsRequest",))
    requests = [each for each in cluster.requested if type(each) is delete_groups.DeleteGroupsRequest]
    assert [each.groups_names for each in requests] == [[""]]


def test_every_parameter_rejects_empty_values_except_listed_ones() -> None:
    open_ = set()
    for path, command in leaves():
        for parameter in command.params:
            guard = parameter.callback
            if not takes_text(parameter):
                continue
            assert isinstance(guard, TextGuard), (path, parameter.name)
            if not guard.refuses_empty and path[0] != "kafka":
                open_.add((command.name, parameter.name))
    assert open_ == EMPTY_IS_A_VALUE


def test_an_empty_key_and_separator_are_values(cluster: FakeCluster) -> None:
    for words in (["produce", "t", "--key", ""], ["consume", "t", "-D", ""]):
        printed = run(cluster, *words, "-b", "127.0.0.1:1", given=b"")
        assert printed.code == Exit.UNREACHABLE, printed


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/v1/groups/k/members?all="),
        ("DELETE", "/v1/groups/k/members?instance="),
        ("DELETE", "/v1/groups/e/offsets/t?partitions="),
        ("GET", "/v1/groups?state="),
        ("GET", "/v1/groups?type="),
        ("POST", "/v1/groups/e/offsets/reset?dry_run="),
        ("PATCH", "/v1/quotas?user=alice&default="),
        ("PATCH", "/v1/quotas?user="),
        ("GET", "/v1/quotas?containing="),
    ],
)
def test_an_http_parameter_that_is_empty_is_refused(method: str, path: str) -> None:
    async def test(client: Client, cluster: HttpCluster) -> None:
        fill(cluster)
        before = copy.deepcopy(cluster.offsets_of)
        body = {"to": "earliest"} if "reset" in path else {"set": {"producer_byte_rate": 1}}
        status, problem = await call(client, method, path, body if method in ("POST", "PATCH") else None)
        assert status == 400, problem
        assert cluster.offsets_of == before and not [
            each for each in cluster.requested if "Leave" in type(each).__name__
        ]

    with_fake(test)


def test_the_delete_that_is_checked_here_would_be_seen(cluster: FakeCluster) -> None:
    assert run(cluster, "kafka-topics", *SERVER, "--delete", "--topic", "orders").code == Exit.DONE
    assert any(type(each) is delete_topics.DeleteTopicsRequest for each in cluster.requested)


@pytest.mark.parametrize("line", ["checkpoint: ''", "errors: {tolerance: dead-letter, topic: d, bootstrap: ''}"])
def test_an_empty_place_in_a_pipelines_file_is_not_the_default_one(line: str) -> None:
    """Another checkpoint would begin the pipeline from the start, another cluster would get the records."""
    text = f"name: p\nsource: {{type: files, path: /in}}\nsink: {{type: files, path: /out}}\n{line}\n"
    with pytest.raises(SpecError, match="at least 1 character"):
        loads(text)
