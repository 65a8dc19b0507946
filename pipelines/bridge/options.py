"""Options of the data source: those of Spark's own Kafka source and sink, checked and typed.

Names are case-insensitive, as Spark's. Unknown names are rejected.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kvorum.pipelines.bridge import client, offsets
from kvorum.pipelines.bridge.client import OptionError, Settings
from kvorum.pipelines.bridge.offsets import EARLIEST, LATEST, Offsets, TopicPartition
from kvorum.pipelines.faults import meant

WHERE = ("assign", "subscribe", "subscribePattern")
READING = (
    *(*WHERE, "startingOffsets", "startingTimestamp", "endingOffsets", "failOnDataLoss", "minPartitions"),
    *("maxRecordsPerPartition", "maxOffsetsPerTrigger", "includeHeaders", "groupIdPrefix"),
    "kafkaConsumer.pollTimeoutMs",
)
WRITING = ("topic", "includeHeaders", "marksMissing")
# Spark passes these on; they have no effect here.
OF_SPARK = ("path", "checkpointLocation", "queryName", "useDeprecatedOffsetFetching")

POLL_TIMEOUT_MS = 120_000  # as Spark's connector: how long a reader waits for a record that must come
GROUP_PREFIX = "spark-kvorum-source"
NOT_A_START = {LATEST: "is not valid as the start of a batch, which would be empty"}
NOT_AN_END = {EARLIEST: "is not valid as an end: no record would be read"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    """Selection of topics: exactly one of the three."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Start or end of reading: an offset of all partitions or of each, or a timestamp."""

    option: str
    value: int | Offsets  # offsets may be EARLIEST or LATEST; a timestamp is in ms
    is_time: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Options of a reader."""

    settings: Settings
    topics: Topics
    start: Position
    end: Position
    fail_on_data_loss: bool
    include_headers: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    group_prefix: str
    poll_timeout_ms: int

    @property
    def is_read_committed(self) -> bool:
        """Whether records of aborted and open transactions are left out."""
        return self.settings.get("isolation.level") == "read_committed"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Options of a writer."""

    settings: Settings
    topic: str | None  # of all rows; None: of column topic
    marks_missing: str  # exactly once: "refuse" to start without the marks, or "renew" them


class _Given:
    """Options by name, in any case. Each method raises OptionError for a value that it does not accept."""

    def __init__(self, options: Mapping[str, str], known: tuple[str, ...]) -> None:
        self.values = {key.lower(): value for key, value in options.items()}
        names = {name.lower(): name for name in (*known, *OF_SPARK)}
        for key in self.values:
            if key not in names and not key.startswith(client.PREFIX):
                raise OptionError(f"unknown option {key}{meant(key, names.values())}")

    def text(self, name: str) -> str | None:
        value = self.values.get(name.lower())
        return value.strip() if value is not None else None

    def word(self, name: str, default: str, allowed: tuple[str, ...]) -> str:
        value = (self.text(name) or default).lower()
        if value not in allowed:
            raise OptionError(f"option {name}: {' or '.join(allowed)}, not {value!r}")
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self.text(name)
        if value is not None and value.lower() not in ("true", "false"):
            raise OptionError(f"option {name}: expected true or false, found {value!r}")
        return default if value is None else value.lower() == "true"

    def count(self, name: str) -> int | None:
        value = self.text(name)
        if value is not None and (not value.isdecimal() or int(value) < 1):
            raise OptionError(f"option {name}: expected a whole number above 0, found {value!r}")
        return None if value is None else int(value)


def reading(options: Mapping[str, str], *, is_streaming: bool) -> ReadOptions:
    """Return a reader's options. Raises OptionError, which names the option."""
    given = _Given(options, READING)
    if is_streaming and given.text("endingOffsets") is not None:
        raise OptionError("option endingOffsets is not valid in streaming queries")
    settings = client.from_options(given.values)
    isolation = settings.get("isolation.level", "read_uncommitted")
    if isolation not in ("read_committed", "read_uncommitted"):
        raise OptionError(f"option kafka.isolation.level: read_committed or read_uncommitted, not {isolation!r}")
    default, not_a_start = ("latest", {}) if is_streaming else ("earliest", NOT_A_START)
    return ReadOptions(
        settings=settings,
        topics=_topics(given),
        start=_start_time(given) or _position(given, "startingOffsets", default, not_a_start),
        end=_position(given, "endingOffsets", "latest", NOT_AN_END),
        fail_on_data_loss=given.flag("failOnDataLoss", True),
        include_headers=given.flag("includeHeaders", False),
        min_partitions=given.count("minPartitions"),
        max_records_per_partition=given.count("maxRecordsPerPartition"),
        max_offsets_per_trigger=given.count("maxOffsetsPerTrigger"),
        group_prefix=given.text("groupIdPrefix") or GROUP_PREFIX,
        poll_timeout_ms=given.count("kafkaConsumer.pollTimeoutMs") or POLL_TIMEOUT_MS,
    )


def _topics(given: _Given) -> Topics:
    found = [name for name in WHERE if given.text(name) is not None]
    if len(found) != 1:
        raise OptionError(f"exactly one of {', '.join(WHERE)} must be given, found {', '.join(found) or 'none'}")
    text = given.text(found[0]) or ""
    if found[0] == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise OptionError(f"option subscribePattern: {text!r}: {error}") from None
        if not text:
            raise OptionError("option subscribePattern is empty")
        return Topics(pattern=text)
    if found[0] == "assign":
        topics, part = Topics(assigned=offsets.parse_assignment(text)), "partition"
    else:
        topics, part = Topics(names=tuple(sorted({name.strip() for name in text.split(",")} - {""}))), "topic"
    if topics == Topics():
        raise OptionError(f"option {found[0]} contains no {part}")
    return topics


def _start_time(given: _Given) -> Position | None:
    """Return the start by time, which takes precedence over offsets, as in Spark's source."""
    option = "startingTimestamp"
    text = given.text(option)
    if text is not None and not text.isdecimal():
        raise OptionError(f"option {option}: expected milliseconds since 1970, found {text!r}")
    return None if text is None else Position(option=option, value=int(text), is_time=True)


def _position(given: _Given, option: str, default: str, rejected: Mapping[int, str]) -> Position:
    """Return the start or the end."""
    text = given.text(option) or default
    words = {"earliest": EARLIEST, "latest": LATEST}
    value = words[text.lower()] if text.lower() in words else offsets.parse(option, text, lowest=EARLIEST)
    for word, offset in words.items():
        if offset in rejected and offset in ([value] if isinstance(value, int) else value.values()):
            shown = word if isinstance(value, int) else f"{offset} ({word})"
            raise OptionError(f"option {option}: {shown} {rejected[offset]}")
    return Position(option=option, value=value)


def writing(options: Mapping[str, str]) -> WriteOptions:
    """Return a writer's options. Raises OptionError, which names the option."""
    given = _Given(options, WRITING)
    missing = given.word("marksMissing", "refuse", ("refuse", "renew"))
    settings = client.from_options(given.values)
    return WriteOptions(settings=settings, topic=given.text("topic") or None, marks_missing=missing)
