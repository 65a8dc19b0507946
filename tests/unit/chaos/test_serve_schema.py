"""The chaos API, tried by a program that knows nothing of it but /openapi.json (Schemathesis), with a cluster on paper.

Whatever it sends, nothing fails on our side, and each answer has a status, a media type and a shape of the document's.
"""

import asyncio
import sys
import threading
from collections.abc import Iterator

import pytest
import schemathesis
from aiohttp import web
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

from kvorum.chaos.serve.faults import KINDS
from tests.unit.chaos.paper import KNOWN, PRETENDER, on_paper

EXAMPLES, FAULTS = 8, 40
HELD = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]
OPERATIONS = 13
ENDLESS = "/v1/chaos/events"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a cluster on paper, in a thread."""
    folder = tmp_path_factory.mktemp("paper")
    (folder / "pretender.py").write_text(PRETENDER)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def start() -> tuple[web.AppRunner, str]:
        server, _ = on_paper(folder)
        server.command = (sys.executable, str(folder / "pretender.py"))
        runner = web.AppRunner(server.build(), access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"

    runner, found = asyncio.run_coroutine_threadsafe(start(), loop).result(60)
    try:
        yield found
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_every_answer_is_one_that_the_document_has(url: str) -> None:
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json").include(path_regex="^/v1/chaos")
    tried: dict[str, set[int]] = {}
    names = st.sampled_from(["node-1", "node-2", "node-1/broker", "all", "random", "clients", "orders-0", "nobody"])
    message = st.just({"fault": "kill", "targets": ["node-1"]}) | st.fixed_dictionaries(
        {"fault": st.sampled_from(list(KINDS)), "targets": st.lists(names, max_size=2)},
        optional={"seed": st.integers(0, 2**63 - 1), "seconds": st.floats(0.001, 86_400), "options": options()},
    )
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path == ENDLESS:
            continue
        begins = operation.label == "POST /v1/chaos/faults"

        @settings(
            max_examples=FAULTS if begins else EXAMPLES,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(), body=message if begins else st.none(), known=st.booleans())
        def check(case, body, known) -> None:
            if body is not None and known:
                case.body = body
            elif "id" in case.path_parameters and known:
                case.path_parameters["id"] = 1
            answer = case.call_and_validate(checks=HELD, headers=KNOWN, timeout=60)
            tried.setdefault(case.operation.label, set()).add(answer.status_code)

        check()
    assert len(tried) == OPERATIONS - 1, sorted(tried)
    assert {201, 400, 409, 422} <= tried["POST /v1/chaos/faults"]
    assert {200, 404} <= tried["DELETE /v1/chaos/faults/{id}"]
    assert all(200 in tried[f"GET /v1/chaos/{name}"] for name in ("state", "kinds", "faults", "shipped", "scenarios"))


def options() -> st.SearchStrategy[dict[str, object]]:
    """Return options, right ones of some fault and others."""
    return st.sampled_from(
        [
            {},
            {"delay_ms": 5},
            {"offset_ms": 1},
            {"api": "PRODUCE", "code": 6},
            {"what": "journal"},
            {"listener": "PLAINTEXT"},
            {"latency_ms": "1"},
            {"arm": "x"},
        ]
    )
