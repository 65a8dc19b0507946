"""What a workload may be, and where its sends go."""

from random import Random

import pytest
from pydantic import TypeAdapter, ValidationError

from kvorum.chaos.client_access import ClientAccess
from kvorum.chaos.history import HistoryWriter
from kvorum.chaos.workload.load import Load
from kvorum.chaos.workload.plan import (
    AdminClients,
    AssignClients,
    ClientPlan,
    SendClients,
    SubscribeClients,
    TransactionClients,
    WorkerClients,
    groups_of,
    select_topics,
    transactions_end_within,
)
from kvorum.chaos.workload.recorder import Recorder
from kvorum.chaos.workload.senders import PartitionChooser, settings


def plan(text: str) -> ClientPlan:
    adapter: TypeAdapter[ClientPlan] = TypeAdapter(ClientPlan)
    return adapter.validate_json(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"kind": "send", "acks": "1"}', "idempotent producers need acks: all"),
        ('{"kind": "send", "client": "kvorum"}', "sends each record once"),
        ('{"kind": "send", "client": "kvorum", "idempotent": false, "acks": 0}', "needs responses"),
        ('{"kind": "send", "rate": 0}', "greater than 0"),
        ('{"kind": "send", "speed": 3}', "Extra inputs"),
        ('{"kind": "sned"}', "does not match any of the expected tags"),
        ('{"kind": "assign", "client": "kvorum"}', "confluent-kafka"),
        ('{"kind": "bank", "records": 3}', "even number"),
        ('{"kind": "subscribe"}', "group_id"),
    ],
)
def test_invalid_plans_are_refused(text: str, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        plan(text)


@pytest.mark.parametrize(("acks", "expected"), [("1", "1"), ("0", "0"), ("-1", "all"), ('"all"', "all")])
def test_acks_may_be_numbers(acks: str, expected: str) -> None:
    found = plan(f'{{"kind": "send", "acks": {acks}, "idempotent": false}}')
    assert isinstance(found, SendClients) and found.acks == expected
    assert settings(found, ClientAccess("h:1"))["acks"] == expected


def test_topics_are_chosen_by_name_and_by_beginning() -> None:
    topics = {"orders": 3, "small-1": 1, "small-2": 1}
    assert select_topics((), topics) == topics
    assert select_topics(("small-*",), topics) == {"small-1": 1, "small-2": 1}
    with pytest.raises(ValueError, match=r"topic 'payments' does not exist; topics: orders"):
        select_topics(("payments",), topics)


def test_sends_go_to_all_partitions_alike_but_for_a_hot_one() -> None:
    even = PartitionChooser({"orders": 3}, 0.0, Random(1))
    assert sorted(even.draw() for _ in range(30)) == sorted(["orders-0", "orders-1", "orders-2"] * 10)
    hot = PartitionChooser({"orders": 4}, 0.8, Random(1))
    assert 780 < [hot.draw() for _ in range(1000)].count("orders-0") < 900


def test_every_kind_of_client_is_made_as_often_as_wanted() -> None:
    plans = [
        SendClients(kind="send", count=2),
        SendClients(kind="send", client="aiokafka"),
        SendClients(kind="send", client="kvorum", idempotent=False),
        AssignClients(kind="assign"),
        AssignClients(kind="assign", client="aiokafka"),
        AdminClients(kind="admin"),
        SubscribeClients(kind="subscribe", group_id="readers", count=3),
        WorkerClients(kind="rpw", group_id="workers", source="orders", sink="orders"),
        TransactionClients(kind="txn"),
        TransactionClients(kind="bank"),
    ]
    requested: list[str] = []
    load = Load(
        plans,
        {"orders": 1},
        lambda group: requested.append(group) or ClientAccess("h:1"),
        Recorder(HistoryWriter()),
        Random(1),
    )
    assert len(requested) == 14 and len(load.admins) == 1


def test_final_checks_depend_on_the_clients() -> None:
    workers = WorkerClients(kind="rpw", group_id="workers", source="a", sink="b", timeout=7)
    readers = SubscribeClients(kind="subscribe", group_id="readers")
    plans = [readers, workers, TransactionClients(kind="txn", timeout=5)]
    assert groups_of(plans, {"a": 2, "b": 1}) == {"readers": ["a-0", "a-1", "b-0"], "workers": ["a-0", "a-1"]}
    assert transactions_end_within(plans) == 7 and transactions_end_within([readers]) is None
