"""What an operator finds in the log: who changed what, what became of it, and who was refused."""

import asyncio
import hashlib
import json
from typing import Any

import pytest
from pydantic import BaseModel

from kvorum.admin.http import audit_log as trail
from kvorum.admin.http.access import Access, labels_of, tokens_of
from kvorum.admin.http.audit_log import body_text_of
from kvorum.admin.http.users import Login
from kvorum.admin.v1.jobs.job_models import ConnectorConfig
from kvorum.admin.v1.models import ConfigAlter, TopicCreate
from kvorum.admin.v1.topics.topic_document import read_yaml
from kvorum.admin.v3 import requests as v3
from kvorum.runtime.config_types import HIDDEN
from tests.unit.admin.fake import Client, FakeClock, FakeCluster, call, serve, with_fake
from tests.unit.admin.operated import OperatedCluster, with_operated

TOKENS = {role: f"{role}-token" for role in ("read", "operate", "admin")}
FILE = "".join(f"{role} {hashlib.sha256(t.encode()).hexdigest()} {role} of the night\n" for role, t in TOKENS.items())
ACCESS = Access(tokens_of(FILE), labels_of(FILE))


class Written:
    """The lines of a log, as facts."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def info(self, message: str, **facts: object) -> None:
        self.lines.append({"message": message, **facts})

    warning = info


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return what the trail writes."""
    log = Written()
    monkeypatch.setattr(trail, "log", log)
    return log.lines


def as_(role: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKENS[role]}"}


def test_each_change_is_logged_with_its_caller_and_result(written: list[dict[str, Any]]) -> None:
    async def test(client: Client, cluster: FakeCluster) -> None:
        cluster.add("t")
        path = "/v1/topics/t/records/delete"
        await call(client, "POST", path, {"partitions": {"0": -2}}, headers=as_("admin"))
        await call(client, "POST", path, {"partitions": {"0": 0}}, headers=as_("admin"))
        await call(client, "DELETE", "/v1/groups/none?x=1", headers=as_("admin"))
        await call(client, "DELETE", "/v1/groups/none", headers=as_("admin") | {"If-Match": '"x"'})
        await call(client, "GET", "/v1/topics", headers=as_("read"))
        await call(client, "POST", "/v1/topics/t/messages", {"records": [{"value": "x"}]}, headers=as_("operate"))

    with_fake(test, ACCESS)
    assert [(each["method"], each["path"], each["status"], each["error"]) for each in written] == [
        ("POST", "/v1/topics/t/records/delete", 400, "INVALID_REQUEST"),
        ("POST", "/v1/topics/t/records/delete", 200, ""),
        ("DELETE", "/v1/groups/none?x=1", 400, "INVALID_REQUEST"),
        ("DELETE", "/v1/groups/none", 412, "PRECONDITION_FAILED"),
    ], "neither who only looks nor records are in it"
    assert {each["who"] for each in written} == {"admin of the night"}
    assert {each["client"] for each in written} == {"127.0.0.1"}
    assert written[1]["body"] == '{"partitions":{"0":0}}' and written[1]["took_ms"] >= 0


@pytest.mark.unexpected("ZeroDivisionError")
def test_a_change_that_fails_is_written_too(written: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: Client, cluster: OperatedCluster) -> None:
        async def ask(*_: object, **__: object) -> None:
            raise ZeroDivisionError("a fault of ours")

        monkeypatch.setattr(cluster, "ask", ask)
        assert (await call(client, "POST", "/v1/leaders/elect", {"all": True}))[0] == 500

    with_operated(test)
    ((line),) = written
    assert (line["who"], line["status"], line["error"]) == ("this machine", 500, "ZeroDivisionError")


def test_a_token_without_a_label_is_known_by_its_hash() -> None:
    text = "".join(line.rsplit(" ", 4)[0] + "\n" for line in FILE.splitlines())
    access = Access(tokens_of(text), labels_of(text))
    hashed = hashlib.sha256(TOKENS["admin"].encode()).hexdigest()
    caller = asyncio.run(access.authenticate(Login(authorization=f"Bearer {TOKENS['admin']}")))
    assert caller.name == f"token {hashed[:8]}"
    assert asyncio.run(Access().authenticate(Login())).name == "this machine"


def test_rejected_requests_are_logged_and_bursts_counted(written: list[dict[str, Any]]) -> None:
    clock = FakeClock()

    async def main() -> None:
        async with serve(FakeCluster(), ACCESS, clock) as client:
            await refusals(client)

    async def refusals(client: Client) -> None:
        for _ in range(5):
            await call(client, "GET", "/v1/topics", headers={"Authorization": "Bearer guess"})
        clock.now_ms += 1_000
        await call(client, "DELETE", "/v1/topics/t", headers=as_("read"))

    asyncio.run(main())
    assert [(each["status"], each["error"], each["others"]) for each in written] == [
        (401, "UNAUTHENTICATED", 0),
        (403, "FORBIDDEN_ROLE", 4),
    ]
    assert "guess" not in str(written)


SECRET = "ssl.keystore.password"
PLUGINS = "my.plugin.password"
KAFKA_TOPIC = f"""
apiVersion: kafka.strimzi.io/v1
kind: KafkaTopic
metadata:
  name: t
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: '{{"spec": {{"config": {{"{PLUGINS}": "p", "x.y": 5}}}}}}'
    strimzi.io/managed: "true"
    team: orders
    example.com/owner: orders@example.com, since 2024
    example.com/api-token: p
    example.com/hook: https://user:p@example.com
    example.com/started-with: --password p
    example.com/cut-off: '{{"spec": {{"config"'
spec:
  config:
    retention.ms: 5
    my.plugin.key: p
"""
BODIES: list[tuple[BaseModel, dict[str, str], dict[str, Any]]] = [
    (
        ConfigAlter(set={"retention.ms": "5", PLUGINS: "p", SECRET: "p"}, delete=["x"]),
        {},
        {"set": {"retention.ms": "5", PLUGINS: HIDDEN, SECRET: HIDDEN}, "delete": ["x"]},
    ),
    (ConfigAlter(set={"network": "DEBUG"}), {}, {"set": {"network": "DEBUG"}}),
    (TopicCreate(name="t", configs={PLUGINS: "p"}), {}, {"name": "t", "configs": {PLUGINS: HIDDEN}}),
    (
        read_yaml(KAFKA_TOPIC.encode()),
        {},
        {
            "apiVersion": "kafka.strimzi.io/v1",
            "kind": "KafkaTopic",
            "metadata": {
                "name": "t",
                "annotations": {
                    "kubectl.kubernetes.io/last-applied-configuration": json.dumps(
                        {"spec": {"config": {PLUGINS: HIDDEN, "x.y": 5}}}, separators=(",", ":")
                    ),
                    "strimzi.io/managed": "true",
                    "team": "orders",
                    "example.com/owner": "orders@example.com, since 2024",
                    "example.com/api-token": HIDDEN,
                    "example.com/hook": HIDDEN,
                    "example.com/started-with": HIDDEN,
                    "example.com/cut-off": HIDDEN,
                },
            },
            "spec": {"config": {"retention.ms": "5", "my.plugin.key": HIDDEN}},
        },
    ),
    (v3.UpdateConfigRequestData(value="p"), {"name": PLUGINS}, {"value": HIDDEN}),
    (v3.UpdateConfigRequestData(value="5"), {"name": "retention.ms"}, {"value": "5"}),
    (
        v3.AlterConfigBatchRequestData(data=[v3.AlterEntry(name=SECRET, value="p")]),
        {},
        {"data": [{"name": SECRET, "value": HIDDEN}]},
    ),
    (
        ConnectorConfig({"passphrase": "p", "apikey": "p", "access_key": "p", "topics": "t", "url": "db://u:p@h/d"}),
        {"connector": "c"},
        {"config": {"passphrase": HIDDEN, "apikey": HIDDEN, "access_key": HIDDEN, "topics": "t", "url": HIDDEN}},
    ),
]


@pytest.mark.parametrize(("body", "path", "printed"), BODIES)
def test_no_value_that_may_be_secret_is_written(body: BaseModel, path: dict[str, str], printed: dict[str, Any]) -> None:
    assert json.loads(body_text_of(body, path)) == printed
