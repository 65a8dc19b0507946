"""`kvorum groups` and kafka-consumer-groups against a cluster in memory."""

import json
from pathlib import Path

import pytest

from kvorum.admin.http.parameters import PAGE
from kvorum.cli.output import Exit
from kvorum.protocol.messages import consumer_group_describe as consumer
from kvorum.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from tests.unit.cli.fake_cluster import FakeCluster, Printed, run

KAFKA = ("kafka-consumer-groups", "--bootstrap-server", "broker:9092")


def assignment(topic: str, *partitions: int) -> bytes:
    """Return ConsumerProtocolAssignment v0 of one topic."""
    name = topic.encode()
    numbers = b"".join(partition.to_bytes(4, "big") for partition in partitions)
    head = (0).to_bytes(2, "big") + (1).to_bytes(4, "big") + len(name).to_bytes(2, "big") + name
    return head + len(partitions).to_bytes(4, "big") + numbers + (-1).to_bytes(4, "big", signed=True)


@pytest.fixture
def cluster() -> FakeCluster:
    """`orders` with three partitions; `pay` is without members, `busy` has one, `new` is of the consumer protocol."""
    made = FakeCluster(
        logs={("orders", 0): (10, 100, {1000: 40}), ("orders", 1): (0, 50, {}), ("orders", 2): (0, 0, {})}
    )
    made.groups["pay"] = DescribedGroup(group_id="pay", group_state="Empty", protocol_type="consumer")
    made.groups["busy"] = DescribedGroup(
        group_id="busy",
        group_state="Stable",
        protocol_type="consumer",
        protocol_data="range",
        members=[
            DescribedGroupMember(
                member_id="m-1", client_id="app", client_host="/h", member_assignment=assignment("orders", 1, 0)
            )
        ],
    )
    made.groups["workers"] = DescribedGroup(group_id="workers", group_state="Stable", protocol_type="connect")
    half = consumer.Assignment(topic_partitions=[consumer.TopicPartitions(topic_name="orders", partitions=[0])])
    made.newer["new"] = consumer.DescribedGroup(
        group_id="new",
        group_state="Reconciling",
        group_epoch=7,
        assignment_epoch=6,
        assignor_name="uniform",
        members=[
            consumer.Member(
                member_id="m-2", client_id="app", client_host="/h", member_epoch=6, assignment=half, member_type=1
            )
        ],
    )
    made.committed["pay"] = {("orders", 0): 60, ("orders", 1): 50}
    made.committed["busy"] = {("orders", 0): 100}
    return made


def columns(printed: Printed) -> list[list[str]]:
    """Return the table's lines, cut at blanks."""
    return [line.split() for line in printed.lines if line.strip()]


def test_a_list_has_types_and_states_and_can_be_filtered(cluster: FakeCluster) -> None:
    assert [line[:4] for line in columns(run(cluster, "groups", "list"))[1:]] == [
        ["busy", "classic", "consumer", "Stable"],
        ["new", "consumer", "consumer", "Reconciling"],
        ["pay", "classic", "consumer", "Empty"],
        ["workers", "classic", "connect", "Stable"],
    ]
    printed = run(cluster, "groups", "list", "--state", "empty,reconciling", "--type", "consumer", "-o", "json")
    assert [row["group_id"] for row in json.loads(printed.out)] == ["new"]
    assert run(cluster, "groups", "list", "--state", "Sleepy").code == Exit.USAGE


def test_a_list_of_several_pages_is_printed_whole(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PAGE.schema, "maximum", 3)  # type: ignore[arg-type]
    assert len(json.loads(run(cluster, "groups", "list", "-o", "json").out)) == 4
    assert len(json.loads(run(cluster, "groups", "list", "--limit", "3", "-o", "json").out)) == 3


def test_a_group_is_described_with_members_offsets_and_lag(cluster: FakeCluster) -> None:
    lines = columns(run(cluster, "groups", "describe", "busy"))
    assert ["state", "Stable"] in lines and ["members:"] in lines and ["offsets:"] in lines
    assert lines[-2:] == [["orders", "0", "100", "3", "100", "0", "m-1"], ["orders", "1", "-", "-", "50", "-", "m-1"]]
    found = json.loads(run(cluster, "groups", "describe", "pay", "-o", "json").out)
    assert [(row["partition"], row["lag"], row["member_id"], row["leader_epoch"]) for row in found["offsets"]] == [
        (0, 40, None, 3),
        (1, 0, None, 3),
    ]


def test_members_and_state_of_both_protocols(cluster: FakeCluster) -> None:
    new, pay = json.loads(run(cluster, "groups", "describe", "new", "pay", "-o", "json").out)
    (member,) = new["members"]
    assert (member["assignment"], member["epoch"], new["epoch"]) == ({"orders": [0]}, 6, 7)
    assert (pay["state"], pay["members"], pay["epoch"]) == ("Empty", [], None)


def test_a_group_that_is_missing_has_an_exit_code_of_its_own(cluster: FakeCluster) -> None:
    printed = run(cluster, "groups", "describe", "nope")
    assert (printed.code, "GROUP_ID_NOT_FOUND" in printed.err) == (Exit.NOT_FOUND, True)
    assert run(cluster, "groups", "describe").code == Exit.USAGE


def test_partitions_of_a_deleted_topic_are_described_without_an_end(cluster: FakeCluster) -> None:
    cluster.committed["pay"] = {("gone", 0): 7}
    (row,) = json.loads(run(cluster, "groups", "describe", "pay", "-o", "json").out)["offsets"]
    assert (row["topic"], row["committed_offset"], row["end_offset"], row["lag"]) == ("gone", 7, None, None)


def test_only_groups_without_members_are_deleted(cluster: FakeCluster) -> None:
    printed = run(cluster, "groups", "delete", "pay", "busy")
    assert (printed.code, printed.out) == (Exit.FAILED, "pay deleted\n")
    assert "NON_EMPTY_GROUP: group 'busy'" in printed.err and "pay" not in cluster.groups
    assert run(cluster, "groups", "delete", "pay").code == Exit.NOT_FOUND
    again = run(cluster, "groups", "delete", "pay", "--if-exists")
    assert (again.code, again.out, again.err) == (Exit.DONE, "", "warning: pay: GROUP_ID_NOT_FOUND is ignored\n")


def test_an_error_of_a_newer_cluster_is_no_traceback(cluster: FakeCluster) -> None:
    cluster.refusals["pay"] = 9_999
    printed = run(cluster, "groups", "delete", "pay")
    assert (printed.code, "UNKNOWN_SERVER_ERROR" in printed.err) == (Exit.FAILED, True)


def test_offsets_of_a_topic_are_forgotten_by_partition(cluster: FakeCluster) -> None:
    printed = run(cluster, "groups", "delete-offsets", "pay", "orders", "--partitions", "0,1,2")
    assert printed.code == Exit.FAILED and cluster.committed["pay"] == {}
    assert [line[-1] for line in columns(printed)[1:]] == ["-", "-", "GROUP_SUBSCRIBED_TO_TOPIC"]
    assert run(cluster, "groups", "delete-offsets", "pay", "orders", "--partitions", "x").code == Exit.USAGE


@pytest.mark.parametrize(
    ("way", "offsets"),
    [
        (["--to-earliest"], [10, 0]),
        (["--to-latest"], [100, 50]),
        (["--to-current"], [60, 50]),
        (["--to-offset", "45"], [45, 45]),
        (["--to-offset", "70"], [70, 50]),
        (["--shift-by", "-55"], [10, 0]),
        (["--to-datetime", "1970-01-01T00:00:01.000"], [40, 50]),
        (["--to-datetime", "1970-01-01T01:00:00.999+01:00"], [40, 50]),
        (["--by-duration", "P1D"], [100, 50]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) and isinstance(value[0], str) else "",
)
def test_a_reset_is_only_executed_with_execute(cluster: FakeCluster, way: list[str], offsets: list[int]) -> None:
    before = dict(cluster.committed["pay"])
    words = ["groups", "reset-offsets", "pay", "--topic", "orders:0,1", *way]
    shown = run(cluster, *words)
    assert [line[-1] for line in columns(shown)[1:]] == [str(offset) for offset in offsets]
    assert cluster.committed["pay"] == before and "nothing was changed" in shown.err
    assert run(cluster, *words, "--execute").code == Exit.DONE
    assert [cluster.committed["pay"]["orders", partition] for partition in (0, 1)] == offsets


def test_an_exported_plan_can_be_carried_out(cluster: FakeCluster, tmp_path: Path) -> None:
    plan = tmp_path / "plan.csv"
    words = ["groups", "reset-offsets", "pay", "--all-topics", "--to-earliest", "--export"]
    plan.write_text(run(cluster, *words).out)
    assert plan.read_text() == "orders,0,10\norders,1,0\n"
    assert run(cluster, "groups", "reset-offsets", "pay", "--from-file", str(plan), "--execute").code == Exit.DONE
    assert cluster.committed["pay"] == {("orders", 0): 10, ("orders", 1): 0}
    plan.write_text("orders,nought,10\n")
    printed = run(cluster, "groups", "reset-offsets", "pay", "--from-file", str(plan))
    assert (printed.code, "line 1 is not TOPIC,PARTITION,OFFSET" in printed.err) == (Exit.USAGE, True)


def test_a_group_with_members_is_not_reset(cluster: FakeCluster) -> None:
    printed = run(cluster, "groups", "reset-offsets", "busy", "--topic", "orders", "--to-earliest", "--execute")
    assert (printed.code, "the current state is Stable" in printed.err) == (Exit.FAILED, True)
    assert cluster.committed["busy"] == {("orders", 0): 100}


def test_offsets_of_a_new_group_may_be_set(cluster: FakeCluster) -> None:
    words = ["groups", "reset-offsets", "later", "--topic", "orders:1", "--to-latest", "--execute"]
    assert run(cluster, *words).code == Exit.DONE
    assert cluster.committed["later"] == {("orders", 1): 50}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--topic", "orders"], "give exactly one of"),
        (["--topic", "orders", "--to-latest", "--to-earliest"], "give exactly one of"),
        (["--to-latest"], "give --topic, --all-topics or --from-file"),
        (["--topic", "orders", "--to-latest", "--dry-run", "--execute"], "not both"),
        (["--topic", "orders:a", "--to-latest"], "is not TOPIC or TOPIC:0,1,2"),
        (["--topic", "orders", "--to-datetime", "yesterday"], "is not YYYY-MM-DDThh:mm:ss.sss"),
        (["--topic", "orders", "--by-duration", "P"], "is not a duration"),
        (["--topic", "orders:2", "--shift-by", "1"], "there is no current committed offset"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_reset_that_is_not_one_is_wrong_usage(cluster: FakeCluster, words: list[str], message: str) -> None:
    printed = run(cluster, "groups", "reset-offsets", "pay", *words)
    assert (printed.code, message in printed.err) == (Exit.USAGE, True), printed.err


def test_members_are_removed_by_id_by_instance_or_all(cluster: FakeCluster) -> None:
    busy = cluster.groups["busy"]
    names = {"m-1": None, "m-2": "i-2", "m-3": None, "m-4": "i-4"}
    busy.members = [DescribedGroupMember(member_id=m, group_instance_id=i) for m, i in names.items()]
    assert run(cluster, "groups", "remove-member", "busy", "m-1").out == "m-1 removed\n"
    printed = run(cluster, "groups", "remove-members", "busy", "--instance", "i-2", "--reason", "x")
    assert columns(printed) == [["MEMBER_ID", "INSTANCE_ID", "ERROR"], ["-", "i-2", "-"]]
    assert {each.reason for each in cluster.requested[-1].members} == {"x"}
    printed = run(cluster, "groups", "remove-member", "busy", "m-1")
    assert (printed.code, "UNKNOWN_MEMBER_ID" in printed.err) == (Exit.FAILED, True)
    printed = run(cluster, "groups", "remove-members", "busy", "--all", "-o", "json")
    assert [(row["member_id"], row["instance_id"]) for row in json.loads(printed.out)] == [("m-3", None), (None, "i-4")]
    assert busy.members == []
    for words in ((), ("--all", "--instance", "i-2")):
        assert run(cluster, "groups", "remove-members", "busy", *words).code == Exit.USAGE
    assert run(cluster, "groups", "remove-members", "nope", "--all").code == Exit.NOT_FOUND


def test_kafkas_columns_are_kafkas(cluster: FakeCluster) -> None:
    printed = run(cluster, *KAFKA, "--describe", "--group", "busy")
    assert printed.lines[:3] == [
        "",
        "GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID     "
        "HOST            CLIENT-ID",
        "busy            orders          0          100             100             0               m-1             "
        "/h              app",
    ]
    assert run(cluster, *KAFKA, "--list").lines == ["busy", "new", "pay"]
    assert columns(run(cluster, *KAFKA, "--list", "--state")) == [
        ["GROUP", "STATE"],
        ["busy", "Stable"],
        ["new", "Reconciling"],
        ["pay", "Empty"],
    ]
    members = run(cluster, *KAFKA, "--describe", "--group", "new", "--members", "--verbose")
    assert columns(members)[1] == ["new", "m-2", "/h", "app", "1", "6", "orders:0", "6", "-"]
    assert "Warning: Consumer group 'new' is rebalancing." in members.err
    state = run(cluster, *KAFKA, "--describe", "--group", "busy", "--state")
    assert columns(state)[1] == ["busy", "broker:9092", "(1)", "range", "Stable", "1"]


HEADING = "GROUP           CONSUMER-ID     HOST            CLIENT-ID       #PARTITIONS     "


def test_members_of_a_group_without_any_are_a_heading(cluster: FakeCluster) -> None:
    nobody = run(cluster, *KAFKA, "--describe", "--group", "pay", "--members")
    assert (nobody.out, nobody.err) == (f"\n{HEADING}\n", "\nConsumer group 'pay' has no active members.\n")
    verbose = run(cluster, *KAFKA, "--describe", "--group", "pay", "--members", "--verbose")
    columns_more = "CURRENT-EPOCH   CURRENT-ASSIGNMENT   TARGET-EPOCH    TARGET-ASSIGNMENT   "
    assert verbose.out == f"\n{HEADING}{columns_more}\n"
    assert run(cluster, *KAFKA, "--describe", "--group", "pay", "--members", "--offsets").code == Exit.FAILED
    somebody = run(cluster, *KAFKA, "--describe", "--group", "busy", "--members")
    assert somebody.lines == [
        "",
        HEADING,
        "busy            m-1             /h              app             2               ",
    ]


def test_static_members_and_those_on_their_way_to_the_new_protocol_have_a_column(cluster: FakeCluster) -> None:
    (member,) = cluster.newer["new"].members
    cluster.newer["new"].members.append(
        consumer.Member(member_id="m-3", instance_id="i-3", client_id="app", client_host="/h", member_type=0)
    )
    printed = run(cluster, *KAFKA, "--describe", "--group", "new", "--members", "--verbose")
    heading, dynamic, static = printed.lines[1:]
    assert heading.split()[2] == "GROUP-INSTANCE-ID" and heading.endswith(" UPGRADED")
    assert (dynamic.split()[:3], dynamic.split()[-1]) == (["new", "m-2", "/h"], "true"), "an empty cell, not a dash"
    assert (static.split()[:3], static.split()[-1]) == (["new", "m-3", "i-3"], "false")
    member.member_type = 0
    assert "UPGRADED" not in run(cluster, *KAFKA, "--describe", "--group", "new", "--members", "--verbose").out


def test_a_topic_that_is_missing_is_a_row_of_deleted_offsets(cluster: FakeCluster) -> None:
    words = [*KAFKA, "--group", "pay", "--delete-offsets", "--topic", "nope", "--topic", "orders:1,0"]
    printed = run(cluster, *words)
    assert printed.code == Exit.FAILED and printed.out.splitlines() == [
        "Request succeeded for deleting offsets from group pay.",
        "",
        "TOPIC           PARTITION  STATUS         ",
        "nope            -          Error: UNKNOWN_TOPIC_OR_PARTITION",
        "orders          0          Successful     ",
        "orders          1          Successful     ",
    ]
    assert cluster.committed["pay"] == {}
    refused = run(cluster, *KAFKA, "--group", "pay", "--delete-offsets", "--topic", "orders:0")
    assert refused.out.splitlines()[:2] == [
        "",
        "Error: Encountered some partition-level error, see the follow-up details.",
    ]
    assert run(cluster, *KAFKA, "--group", "pay", "--delete-offsets", "--topic", "a:b").code == Exit.FAILED


def test_new_offsets_are_not_padded_and_no_groups_are_an_empty_line(cluster: FakeCluster) -> None:
    words = ["--reset-offsets", "--dry-run", "--to-earliest", "--topic", "orders:0"]
    assert run(cluster, *KAFKA, "--group", "pay", *words).out.splitlines() == [
        "",
        "GROUP           TOPIC           PARTITION  NEW-OFFSET",
        "pay             orders          0          10",
    ]
    refused = run(cluster, *KAFKA, "--group", "busy", *words)
    assert refused.out.splitlines()[-1] == "GROUP           TOPIC           PARTITION  NEW-OFFSET"
    cluster.groups.clear()
    cluster.newer.clear()
    assert run(cluster, *KAFKA, "--all-groups", *words).out == "\n"


def test_kafkas_reset_and_delete_have_kafkas_output(cluster: FakeCluster) -> None:
    words = [*KAFKA, "--group", "pay", "--topic", "orders:0", "--reset-offsets", "--to-earliest"]
    shown = run(cluster, *words)
    assert shown.err.startswith("WARN: No action will be performed") and columns(shown)[1] == [
        "pay",
        "orders",
        "0",
        "10",
    ]
    assert run(cluster, *words, "--execute").err == "" and cluster.committed["pay"]["orders", 0] == 10
    printed = run(cluster, *KAFKA, "--delete", "--group", "pay")
    assert printed.out == "Deletion of requested consumer groups ('pay') was successful.\n"
    failed = run(cluster, *KAFKA, "--delete", "--group", "busy")
    assert (failed.code, "* Group 'busy' could not be deleted" in failed.out) == (Exit.FAILED, True)
    for words in (
        ["--describe"],
        ["--describe", "--list", "--group", "x"],
        ["--delete", "--group", "x", "--topic", "t"],
    ):
        assert run(cluster, *KAFKA, *words).code == Exit.FAILED
    assert "valid" in run(cluster, *KAFKA, "--validate-regex", "a.*").out
    assert "is invalid" in run(cluster, *KAFKA, "--validate-regex", "a(").out
