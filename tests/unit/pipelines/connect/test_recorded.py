"""The same requests as Apache Kafka Connect 4.3.0 was asked, and its answers: recorded.json, a request a line.

Recorded from a distributed worker over a Kvorum cluster, with connect-file's connectors; paths are shortened, of long
lists the first of each kind is kept. What is compared: the status always; of errors Connect's message, of what is done
the whole answer, of lists about plugins and loggers the shape. DIFFERENT says where we answer otherwise, and why.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.pipelines.connect.fakes import Fake, FakeRunner, manager

ROWS = json.loads((Path(__file__).parent / "recorded.json").read_text())
ANY = object()

NOT_JSON = "what was sent is not right: 400; Connect's own parser answers 500"
DIFFERENT: dict[tuple[str, str, str], tuple[int, str]] = {
    ("POST", "/connectors", '{"name": "bad"}'): (400, NOT_JSON),
    ("POST", "/connectors", "{not json"): (400, NOT_JSON),
    ("POST", "/connectors", "[1]"): (400, NOT_JSON),
    ("PUT", "/connectors/bad/config", "[]"): (400, NOT_JSON),
    ("PUT", "/connector-plugins/FileStreamSource/config/validate", '{"file": "x"}'): (400, NOT_JSON),
    ("PUT", "/connector-plugins/Nothing/config/validate", '{"connector.class": "Nothing"}'): (400, NOT_JSON),
}
"""{(method, path, body): (our status, why)}; see also `different`."""


def different(row: dict[str, Any]) -> int | None:
    """Return our status where it is another one than Connect's."""
    body = row.get("raw") or (json.dumps(row["body"]) if "body" in row else "")
    found = DIFFERENT.get((row["method"], row["path"], body))
    if found is not None:
        return found[0]
    if row["path"] == "/connectors" and row["method"] == "POST" and row["status"] == 500:
        return 400  # NOT_JSON
    if row["method"] == "PATCH" and row["path"] == "/connectors/lines/offsets" and row["status"] == 500:
        return 400  # a partition that is null
    if row["method"] == "PATCH" and row["path"] == "/connectors/out/offsets" and row["status"] == 500:
        return 400  # a negative offset: Connect fails at the broker
    if "a%20b" in row["path"]:
        return 400 if row["method"] == "PUT" else 404  # a pipeline's name is a folder's: no blanks
    if row["path"] == "/connectors/lines/tasks/0/restart" and row["status"] == 409:
        return 404  # a stopped connector has no task; a single worker of Connect's has no leader to ask
    if row["path"].endswith("?scope=cluster"):
        return 501  # levels are set manager by manager
    return None


def shape(value: Any) -> Any:
    """Return what kinds of values there are, without the values."""
    match value:
        case dict():
            return {key: shape(inner) for key, inner in value.items()}
        case list():
            return [shape(value[0])] if value else []
        case None:
            return None
        case _:
            return type(value).__name__


def like(ours: Any, theirs: Any) -> bool:
    """Tell whether an answer has the keys of the other one, and the same kinds of values where neither is null."""
    match theirs:
        case dict():
            return isinstance(ours, dict) and set(ours) == set(theirs) and all(like(ours[k], theirs[k]) for k in theirs)
        case list():
            return isinstance(ours, list) and (not ours or not theirs or like(ours[0], theirs[0]))
        case None:
            return True
        case _:
            return ours is None or type(ours) is type(theirs)


def without_versions(answer: Any) -> Any:
    """Return an answer without what must differ: versions, and what Connect's own task class is."""
    match answer:
        case dict():
            return {k: without_versions(v) for k, v in answer.items() if k not in ("version", "task.class")}
        case list():
            return [without_versions(each) for each in answer]
        case _:
            return answer


WORDS_OF_OUR_OWN = (
    *("available connectors are", "contains no connector type", "tasks.max", "errors.tolerance", "transforms.a"),
    'configuration "topic"',  # and more: Connect reads standard input where no file is named, we do not
)
"""Errors in which what is wrong is said in our words, or by names of ours."""
SHAPES = ("/connector-plugins", "/admin/loggers")


def compare(row: dict[str, Any], status: int, answer: Any) -> str | None:
    """Return what is other than Connect's answer."""
    wanted = different(row)
    if wanted is not None:
        right = status == wanted and (status < 400 or set(answer) == {"error_code", "message"})
        return None if right else f"{status} {answer}, not {wanted}"
    if status != row["status"]:
        return f"{status} {answer}"
    theirs = without_versions(row["answer"])
    ours = without_versions(answer)
    if status >= 400:
        if ours["error_code"] != theirs["error_code"]:
            return f"{ours}"
        own = any(words in theirs["message"] for words in WORDS_OF_OUR_OWN)
        return None if own or ours["message"].split("\n")[1:-1] == theirs["message"].split("\n")[1:-1] else f"{ours}"
    if row["path"] == "/":
        return None if like(answer, row["answer"]) else f"{answer}"
    if row["path"].startswith(SHAPES):
        return _plugins(row, answer)
    return None if ours == theirs else f"{ours}"


def _plugins(row: dict[str, Any], answer: Any) -> str | None:
    theirs = row["answer"]
    if row["path"].endswith("/validate"):
        # A key that nobody knows, a transform without its value, a missing file: errors here, passed over by Connect.
        strict = "unknown.key" in row["body"] or len(row["body"]) == 1
        same = answer["name"] == theirs["name"] and (strict or answer["error_count"] == theirs["error_count"])
        by_name = {config["definition"]["name"]: config for config in answer["configs"]}
        for config in theirs["configs"]:
            own = by_name[config["definition"]["name"]]
            same = same and like(own, config) and own["value"]["errors"] == config["value"]["errors"]
        return None if same else f"{answer}"
    if row["path"].startswith("/admin/loggers"):
        return None if like(answer, theirs) or "last_modified" in str(answer) else f"{answer}"
    return None if like(answer, theirs) else f"{answer}"


async def replay(fake: Fake) -> list[str]:
    wrong: list[str] = []
    for row in ROWS:
        if "wait" in row:
            tasks = [row["task"]] if row["task"] and row["wait"] != "asleep" else []
            await fake.until_states(row["wait"], row["connector"], *tasks)
            continue
        path = row["path"].replace("org.apache.kafka.connect.runtime.WorkerSourceTask", "kvorum.recorded")
        if "raw" in row:
            more = {"data": row["raw"], "headers": {"Content-Type": row["content_type"]}}
            status, answer = await fake.call(row["method"], path, **more)
        else:
            status, answer = await fake.call(row["method"], path, row.get("body"))
        if row["path"].startswith("/admin/loggers/org") and row["method"] == "PUT" and status == 200:
            answer = row["answer"]  # the names of the loggers are another program's
        found = compare(row, status, answer)
        if found is not None:
            wrong.append(
                f"{row['method']} {row['path']} {row.get('body', row.get('raw', ''))}\n  {row}\n  {found[:600]}"
            )
    return wrong


@pytest.mark.filterwarnings("ignore:.*unclosed.*")
def test_every_answer_is_connects_or_differs_for_a_reason_that_is_written_down() -> None:
    async def go() -> list[str]:
        runner = FakeRunner(
            offsets={"lines": [{"filename": "/data/in.txt", "position": 6}], "out": [{"lines": {"0": 3}}]}
        )
        async with manager(runner=runner) as fake:
            return await replay(fake)

    wrong = asyncio.run(go())
    assert not wrong, "\n".join(wrong)
