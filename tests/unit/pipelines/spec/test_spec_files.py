"""Pipeline files: what they may say, and that what is wrong is told with its line."""

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from kvorum.pipelines import spec
from kvorum.pipelines.spec.model import duration_ms

ORDERS = """\
name: orders
source:
  type: topics
  bootstrap: "127.0.0.1:9092"
  topics: [orders]
  key: string
  value: {format: json, schema: "a INT"}
  options: {kafka.client.id: on}
transforms:
  - type: InsertField$Value
    static.field: a
    static.value: 2020-01-01
    predicate: Gone
    negate: true
predicates:
  Gone: {type: RecordIsTombstone}
sink: {type: topics, topic: out, value: {format: json}}
errors: {tolerance: dead-letter, topic: dlq}
trigger: {interval: 1s}
parallelism: 4
"""

MINIMAL = "name: a\nsource: {type: x}\nsink: {type: y}\n"


def refused(text: str, form: str = "yaml") -> list[str]:
    with pytest.raises(spec.SpecError) as caught:
        spec.loads(text, form=form)
    return [str(problem).removeprefix("<pipeline>:").strip() for problem in caught.value.problems]


def test_a_file_says_it_all() -> None:
    orders = spec.loads(ORDERS)
    assert orders.source.settings == {
        "bootstrap": "127.0.0.1:9092",
        "topics": ["orders"],
        "options": {"kafka.client.id": "on"},
    }
    assert orders.source.key is not None and orders.source.key.format == "string"
    assert orders.source.value is not None and orders.source.value.settings == {"schema": "a INT"}
    (step,) = orders.transforms
    assert (step.plain, step.part, step.predicate, step.negate) == ("InsertField", "value", "Gone", True)
    assert step.settings == {"static.field": "a", "static.value": "2020-01-01"}
    assert orders.trigger.arguments() == {"processingTime": "1000 milliseconds"}
    assert (orders.delivery, orders.connector, orders.parallelism) == ("exactly_once", "auto", 4)
    assert orders.errors.topic == "dlq" and orders.errors.headers


def test_what_a_pipeline_says_is_loaded_again() -> None:
    orders = spec.loads(ORDERS)
    assert spec.from_data(orders.as_data()).as_data() == orders.as_data()


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("name: a\nsource: {type: x}\n", ["sink: is missing"]),
        (MINIMAL + "sinc: 1\n", ["4:1: sinc: unknown key; did you mean 'sink'?"]),
        (
            MINIMAL + "errors:\n  tolerence: skip\n",
            ["5:3: errors.tolerence: unknown key; did you mean 'tolerance'?"],
        ),
        (
            MINIMAL + "errors:\n  tolerance: dead_leter\n",
            [
                "5:3: errors.tolerance: 'dead_leter' is not one of 'fail', 'skip' or 'dead-letter'",
                "; did you mean 'dead-letter'?",
            ],
        ),
        (MINIMAL + "errors: {tolerance: dead-letter}\n", ["4:1: errors: dead-letter needs a topic"]),
        (
            MINIMAL + "trigger: {interval: soon}\n",
            ["4:11: trigger.interval: 'soon' is not a duration such as 500ms, 10s, 5m or 1h"],
        ),
        (
            MINIMAL + "trigger: {interval: 1s, once: true}\n",
            ["4:1: trigger: give one of interval, once and available-now"],
        ),
        (
            MINIMAL + "parallelism: many\n",
            ["4:1: parallelism: input should be a valid integer, unable to parse string as an integer"],
        ),
        (MINIMAL + "name: b\n", ["4:1: name: stands twice"]),
        (
            MINIMAL
            + "transforms:\n- {type: Filter, predicate: Tomb}\npredicates: {Tombs: {type: RecordIsTombstone}}\n",
            ["5:18: transforms[0].predicate: there is no predicate 'Tomb'; did you mean 'Tombs'?"],
        ),
        (MINIMAL + "transforms:\n- predicate: x\n", ["5:3: transforms[0].type: is missing"]),
        (
            MINIMAL + "transforms:\n- {type: Filter, negate: true}\n",
            ["5:3: transforms[0].predicate: negate without a predicate"],
        ),
        (
            "name: ../a\nsource: {type: x}\nsink: {type: y}",
            ["1:1: name: string should match pattern '^[A-Za-z0-9_][A-Za-z0-9._-]{0,199}$'"],
        ),
        ("name: [", ["1:8: while parsing a flow node: expected the node content, but found '<stream end>'"]),
        ("- a", ["is not a mapping of keys to values"]),
        ("", ["is not a mapping of keys to values"]),
        (
            MINIMAL.replace("type: x", "type: x, url: '${env:NO_SUCH}'"),
            ["2:19: source.url: ${env:NO_SUCH}: not set in the environment"],
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str, problems: list[str]) -> None:
    assert refused(text) == ["".join(problems)]


def test_everything_wrong_is_told_at_once() -> None:
    assert [line.split(" ")[0] for line in refused(MINIMAL.replace("name", "nam") + "delivery: once\n")] == [
        "name:", "1:1:", "4:1:",
    ]  # fmt: skip


def test_json_is_read_as_json_and_placed(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(
        '{\n\t"name": "a",\n\t"source": {"type": "x", "face": "\\ud83d\\ude00"},\n\t"sink": {"type": "y"}\n}'
    )
    assert spec.load(file).source.settings == {"face": "\N{GRINNING FACE}"}
    file.write_text('{"name": "a",\n  "sorce": {"type": "x"},\n  "sink": {"type": "y"}}')
    with pytest.raises(spec.SpecError, match=r"a\.json:2:3: sorce: unknown key; did you mean 'source'\?"):
        spec.load(file)
    file.write_text('{"name": "a",}')
    with pytest.raises(spec.SpecError, match=r"a\.json:1:1[34]: not JSON"):
        spec.load(file)
    with pytest.raises(spec.SpecError, match="cannot be read: No such file"):
        spec.load(tmp_path / "none.yaml")


class Topics(BaseModel):
    model_config = ConfigDict(extra="forbid")
    topics: list[str]
    limit: int = 0


def test_plugins_options_are_told_with_their_line_too() -> None:
    text = "name: a\nsource:\n  type: topics\n  topic: [a]\n  limit: x\nsink: {type: topisc}\n"
    made = spec.loads(text)
    wrong = made.parts.wrong_settings({"source.topics": Topics, "sink.topics": Topics}, made.places)
    assert [str(problem) for problem in spec.SpecError(wrong).problems] == [
        "<pipeline>:2:1: source.topics: is missing",
        "<pipeline>:4:3: source.topic: unknown key; did you mean 'topics'?",
        "<pipeline>:5:3: source.limit: input should be a valid integer, unable to parse string as an integer",
        "<pipeline>:6:8: sink.type: there is no sink 'topisc'; did you mean 'topics'?",
    ]
    right = spec.loads("name: a\nsource: {type: topics, topics: [a]}\nsink: {type: any}")
    assert right.parts.wrong_settings({"source.topics": Topics}, right.places) == []


def test_values_come_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("N", "3")
    (tmp_path / "secrets.properties").write_text("# the database's\npassword = s\\u0065cret:1 \\\n   and more\n")
    (tmp_path / "user").write_text("me")
    text = (
        MINIMAL + f"parallelism: ${{env:N}}\ndescription: '${{file:{tmp_path}/secrets.properties:password}}, "
        f"${{directory:{tmp_path}:user}}, ${{env:NONE:-none}}, ${{topic}}'\n"
    )
    made = spec.loads(text)
    assert made.parallelism == 3
    assert made.description == "secret:1 and more, me, none, ${topic}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500ms", 500),
        ("10s", 10_000),
        ("1 minute", 60_000),
        ("2 hours", 7_200_000),
        ("3m", 180_000),
        ("1d", 86_400_000),
    ],
)
def test_durations(text: str, expected: int) -> None:
    assert duration_ms(text) == expected


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("once", {"once": True}),
        ("available-now", {"availableNow": True}),
        ("{available-now: true}", {"availableNow": True}),
        ("5s", {"processingTime": "5000 milliseconds"}),
        ("{}", {}),
    ],
)
def test_triggers(text: str, arguments: dict[str, object]) -> None:
    assert spec.loads(MINIMAL + f"trigger: {text}").trigger.arguments() == arguments
