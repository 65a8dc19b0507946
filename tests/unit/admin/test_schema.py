"""Every operation with inputs drawn from what the OpenAPI document says of it, right ones and wrong ones.

Whatever is sent, the answer is one the document has: of the model where it went well, a problem where it did not, no
failure of ours.
"""

import asyncio
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp.test_utils import TestServer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from kvorum.admin.app import operations
from kvorum.admin.http.openapi import document
from kvorum.admin.http.operations import JSON, Operation
from kvorum.admin.http.problems import PROBLEM, Problem
from kvorum.admin.v1.jobs.connect_client import ConnectClient
from kvorum.admin.v3.dialect import V3
from kvorum.admin.v3.models import ErrorResponse
from kvorum.client.wire.cluster_client import METADATA_TOPIC
from tests.unit.admin.fake import NOW_MS, Client, FakeCluster, serve
from tests.unit.admin.fake_connect import FakeConnect
from tests.unit.admin.managed import ManagedCluster
from tests.unit.admin.node_server import FakeNode, name_listeners, running
from tests.unit.admin.operated import CONTROLLER
from tests.unit.admin.test_groups_routes import fill as fill_groups
from tests.unit.admin.test_roles_and_transactions import begin

EXAMPLES = 30
CONNECT = FakeConnect()
DOCUMENT = document(operations(), "0")
SCHEMAS = DOCUMENT["components"]["schemas"]
WORDS = ("t", "e", "c", "k", "known", "0", "1", "7", "-1", "true", "false", "all", "earliest", "read_committed", "json")
KNOWN = ("t", "0", "1")
THERE = {
    "topic": ("t",),
    "group": ("c", "e", "k", "new"),
    "transactional_id": ("known",),
    "partition": ("0", "1"),
    "broker": ("1",),
    "broker_id": ("1",),
    "controller": (str(CONTROLLER),),
    "partition_id": ("0", "1"),
    "cluster_id": ("c",),
    "topic_name": ("t",),
    "consumer_group_id": ("c", "e", "k"),
    "consumer_id": ("m1", "old"),
    "name": ("known",),
    "connector": ("numbers",),
    "task": ("0",),
    "expand": ("info", "status", "status,info"),
    "partitions": ("0", "0,1"),
    "offsets": ("0:1,1:0",),
    "filter": ("offset > 2", 'value ~ "v" && partition in [0, 1]', "value.a.b == 1"),
    "state": ("Empty", "Ongoing"),
    "type": ("classic", "topic_created"),
    "validate_only": ("true", "false"),
    "dry_run": ("true", "false"),
    "limit": ("1", "50"),
    "of": ("brokers", "broker:1,broker:1:static", "topic:t,topic:t:broker"),
    "user": ("t",),
    "default": ("user", "user,client_id"),
    "any": ("client_id", "ip"),
    "subscription": ("known",),
    "order": ("size", "under_replicated"),
    "partitioner": ("crc32", "any"),
    "key": ("k1", "7"),
    "after": ("t:0", "t", "t:0:1", "0"),
    "before": ("3",),
}
PRINTABLE = st.characters(codec="utf-8", exclude_characters="\0")


class Hasty:
    """A clock whose every look is a minute later: what waits for its limit of time reaches it."""

    now_ms = 0

    def wall_ms(self) -> int:
        return NOW_MS

    def monotonic_ms(self) -> int:
        self.now_ms += 60_000
        return self.now_ms


class WithProcesses(ManagedCluster):
    """Broker 1 and the controller are processes with pages; of the others nobody tells where theirs are."""

    def __init__(self) -> None:
        self.nodes = FakeNode(), FakeNode(CONTROLLER, "controller")
        super().__init__()

    def reset(self) -> None:
        super().reset()
        for node in self.nodes:
            name_listeners(self, node.node_id, process_roles=node.role, metrics_listener=node.url)


def drawn(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Return values of a JSON schema, as far as pydantic writes them."""
    if "$ref" in schema:
        return drawn(SCHEMAS[schema["$ref"].rpartition("/")[2]])
    if "anyOf" in schema:
        return st.one_of([drawn(each) for each in schema["anyOf"] for _ in range(1 if each == {"type": "null"} else 4)])
    if "enum" in schema or "const" in schema:
        return st.sampled_from(schema.get("enum") or [schema["const"]])
    kind = schema.get("type")
    if kind == "object":
        return drawn_object(schema)
    if kind == "array":
        return st.lists(drawn(schema.get("items", {})), min_size=schema.get("minItems", 0), max_size=3)
    if kind == "integer":
        low, high = schema.get("minimum", -(2**63)), schema.get("maximum", 2**63 - 1)
        small = st.sampled_from([each for each in (0, 1, 3, low, high) if low <= each <= high])
        return st.one_of(small, st.integers(low, high))
    plain = {
        "boolean": st.booleans(),
        "null": st.none(),
        "string": st.one_of(st.sampled_from(WORDS), st.text(PRINTABLE)),
    }
    if "pattern" in schema:
        return st.sampled_from(KNOWN)
    formats = {"date-time": st.just("2023-11-14T22:13:12Z"), "duration": st.just("PT9S")}
    return formats.get(
        schema.get("format", ""), plain.get(kind or "", st.one_of(st.none(), st.integers(0, 9), st.just({})))
    )


def drawn_object(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Return objects: those with names of their own, some of which may be left out, and those with any."""
    if "properties" not in schema:
        inner = schema.get("additionalProperties")
        values = drawn(inner) if isinstance(inner, dict) else st.none()
        return st.dictionaries(st.sampled_from(KNOWN), values, min_size=schema.get("minProperties", 0), max_size=2)
    needed = {name: drawn(schema["properties"][name]) for name in schema.get("required", ())}
    optional = {name: drawn(each) for name, each in schema["properties"].items() if name not in needed}
    names = sorted(optional)
    few = st.lists(st.sampled_from(names), unique=True, max_size=3) if names else st.just([])
    chosen = st.one_of(st.sampled_from([[name] for name in names]), few) if names else few
    return chosen.flatmap(lambda names: st.fixed_dictionaries({**needed, **{name: optional[name] for name in names}}))


def parameter(entry: dict[str, Any]) -> st.SearchStrategy[str]:
    """Return texts for a parameter: those of its kind, what there is in the cluster, and anything."""
    schema, pattern = entry["schema"], entry["schema"].get("pattern")
    right = st.from_regex(pattern) if pattern else drawn(schema).map(lambda value: str(value).lower())
    there = st.sampled_from(THERE.get(entry["name"], WORDS))
    return st.one_of(there, there, there, there, there, right, st.sampled_from(WORDS), st.text(PRINTABLE, min_size=1))


def requests(operation: Operation) -> st.SearchStrategy[tuple[str, dict[str, str], Any]]:
    """Return (path, query, body): mostly right, now and then not."""
    entries = DOCUMENT["paths"][operation.path][operation.method.lower()]["parameters"]
    parts = [parameter(entry) for entry in entries if entry["in"] == "path"]
    values = {entry["name"]: parameter(entry) for entry in entries if entry["in"] == "query"} | {
        "no_such": st.just("1")
    }
    names = st.lists(st.sampled_from([*values] * 5 if len(values) > 1 else [*values]), unique=True, max_size=3)
    query = st.one_of(st.just({}), names.flatmap(lambda given: st.fixed_dictionaries({n: values[n] for n in given})))
    models = operation.documents[JSON].models if JSON in operation.documents else (operation.body,)
    body = st.one_of([drawn({"$ref": each.__name__}) for each in models if each.__name__ in SCHEMAS] or [st.none()])
    wrong = st.dictionaries(st.text(max_size=3), st.none(), max_size=2)
    return st.tuples(
        st.tuples(*parts).map(lambda found: path_of(operation, found)), query, st.one_of(body, body, body, wrong)
    )


def path_of(operation: Operation, parts: tuple[str, ...]) -> str:
    path = operation.path
    for name, part in zip(operation.names_in_path, parts, strict=True):
        # Of itself a path of dots goes elsewhere.
        path = path.replace(f"{{{name}}}", quote(part, safe="") if part.strip(".") else "dots")
    return path


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[asyncio.Runner, Client, FakeCluster]]:
    with asyncio.Runner() as runner:
        cluster = WithProcesses()
        cluster.waits = False
        connect = TestServer(CONNECT.app())
        runner.run(connect.start_server())
        jobs = ConnectClient([str(connect.make_url("")).rstrip("/")])
        processes, context = running(*cluster.nodes), serve(cluster, clock=Hasty(), connect=jobs)
        runner.run(processes.__aenter__())
        client = runner.run(context.__aenter__())
        yield runner, client, cluster
        runner.run(context.__aexit__(None, None, None))
        runner.run(processes.__aexit__(None, None, None))
        runner.run(connect.close())


@pytest.mark.parametrize("operation", operations(), ids=lambda operation: operation.name)
def test_answers_are_those_the_document_has(
    operation: Operation, served: tuple[asyncio.Runner, Client, FakeCluster]
) -> None:
    runner, client, cluster = served

    @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(requests(operation))
    def check(request: tuple[str, dict[str, str], Any]) -> None:
        cluster.reset()
        CONNECT.reset()
        fill_groups(cluster)
        begin_transactions(cluster)
        runner.run(answer_fits(client, operation, *request))

    check()


def begin_transactions(cluster: FakeCluster) -> None:
    """Add transactions, leave the topics as they are."""
    logs, ids = dict(cluster.logs), dict(cluster.ids)
    begin(cluster)
    cluster.logs, cluster.ids = logs, ids
    assert METADATA_TOPIC in cluster.logs


async def answer_fits(client: Client, operation: Operation, path: str, query: dict[str, str], body: Any) -> None:
    """Hold one answer to the document."""
    async with client.request(operation.method, path, params=query, json=body) as answer:
        content = await answer.read()
        reported = f"{operation.method} {path} {query} {body} -> {answer.status} {content[:300]!r}"
        assert answer.status < 500, reported
        if answer.status in operation.other_answers:
            model = operation.other_answers[answer.status]
            assert (content == b"") if model is None else model.model_validate_json(content), reported
        elif answer.status != operation.status and V3.has_path(operation.path):
            assert answer.content_type == JSON, reported
            assert str(ErrorResponse.model_validate_json(content).error_code).startswith(str(answer.status)), reported
        elif answer.status != operation.status:
            assert answer.content_type == PROBLEM, reported
            assert Problem.model_validate_json(content).status == answer.status, reported
        elif operation.answer is None and JSON in operation.media:
            assert content == b"", reported
        else:
            assert answer.content_type in operation.media, reported
            if answer.content_type == JSON:
                whole: Any = list[operation.answer] if operation.many else operation.answer  # type: ignore[name-defined]
                TypeAdapter(whole).validate_json(content)
