"""Options of the data source: those of Spark's own Kafka source and sink, checked and typed.

Names are case-insensitive, as Spark's. Unknown names are rejected.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from kvorum.pipelines.bridge import client, offsets
from kvorum.pipelines.bridge.client import OptionError, Settings
from kvorum.pipelines.bridge.offsets import EARLIEST, LATEST, Offsets, TopicPartition

WHERE = ("assign", "subscribe", "subscribePattern")
BATCH_ONLY = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
READING = (
    *(*WHERE, *BATCH_ONLY, "startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp"),
    *("startingOffsetsByTimestampStrategy", "failOnDataLoss", "minPartitions", "maxRecordsPerPartition"),
    *("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "includeHeaders", "groupIdPrefix"),
    *("kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs"),
)
WRITING = ("topic", "includeHeaders", "marksMissing")
# Spark passes these on; they have no effect here.
OF_SPARK = ("path", "checkpointLocation", "queryName", "useDeprecatedOffsetFetching")

POLL_TIMEOUT_MS = 120_000  # as Spark's connector: how long a reader waits for a record that must come
MAX_TRIGGER_DELAY_MS = 15 * 60_000
GROUP_PREFIX = "spark-kvorum-source"
DURATION = re.compile(r"(\d+)\s*(ms|s|m|min|h|d)?")
DURATION_MS = {None: 1, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    """Selection of topics: exactly one of the three."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Start or end of reading. Exactly one of the three is not None."""

    option: str
    everywhere: int | None = None  # EARLIEST or LATEST
    offsets: Offsets | None = None
    timestamps_ms: Offsets | int | None = None
    latest_if_none_later: bool = False  # for a timestamp after the last record; otherwise that is an error


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
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
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
                close = difflib.get_close_matches(key, names, n=1)
                hint = f": did you mean {names[close[0]]}?" if close else ""
                raise OptionError(f"unknown option {key}{hint}")

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

    def duration_ms(self, name: str, default: int) -> int:
        value = self.text(name)
        match = DURATION.fullmatch(f"{default}" if value is None else value.lower())
        if match is None:
            raise OptionError(f"option {name}: expected a duration such as 500ms, 30s or 15m, found {value!r}")
        return int(match[1]) * DURATION_MS[match[2]]


def reading(options: Mapping[str, str], *, is_streaming: bool) -> ReadOptions:
    """Return a reader's options. Raises OptionError, which names the option."""
    given = _Given(options, READING)
    for name in BATCH_ONLY if is_streaming else ():
        if given.text(name) is not None:
            raise OptionError(f"option {name} is not valid in streaming queries")
    low, high = given.count("minOffsetsPerTrigger"), given.count("maxOffsetsPerTrigger")
    if low and high and low > high:
        raise OptionError(f"option minOffsetsPerTrigger ({low}) is larger than maxOffsetsPerTrigger ({high})")
    settings = client.from_options(given.values)
    isolation = settings.get("isolation.level", "read_uncommitted")
    if isolation not in ("read_committed", "read_uncommitted"):
        raise OptionError(f"option kafka.isolation.level: read_committed or read_uncommitted, not {isolation!r}")
    given.count("fetchOffset.numRetries")
    return ReadOptions(
        settings=settings,
        topics=_topics(given),
        start=_starting(given, is_streaming=is_streaming),
        end=_ending(given),
        fail_on_data_loss=given.flag("failOnDataLoss", True),
        include_headers=given.flag("includeHeaders", False),
        min_partitions=given.count("minPartitions"),
        max_records_per_partition=given.count("maxRecordsPerPartition"),
        max_offsets_per_trigger=high,
        min_offsets_per_trigger=low,
        max_trigger_delay_ms=given.duration_ms("maxTriggerDelay", MAX_TRIGGER_DELAY_MS),
        group_prefix=given.text("groupIdPrefix") or GROUP_PREFIX,
        poll_timeout_ms=given.duration_ms("kafkaConsumer.pollTimeoutMs", POLL_TIMEOUT_MS),
    )


def _topics(given: _Given) -> Topics:
    found = [name for name in WHERE if given.text(name) is not None]
    if len(found) != 1:
        raise OptionError(f"exactly one of {', '.join(WHERE)} must be given, found {', '.join(found) or 'none'}")
    text = given.text(found[0]) or ""
    match found[0]:
        case "assign":
            assigned = offsets.parse_assignment(text)
            if not assigned:
                raise OptionError("option assign contains no partition")
            return Topics(assigned=assigned)
        case "subscribe":
            names = tuple(sorted({name.strip() for name in text.split(",")} - {""}))
            if not names:
                raise OptionError("option subscribe contains no topic")
            return Topics(names=names)
        case _:
            try:
                re.compile(text)
            except re.error as error:
                raise OptionError(f"option subscribePattern: {text!r}: {error}") from None
            if not text:
                raise OptionError("option subscribePattern is empty")
            return Topics(pattern=text)


def _starting(given: _Given, *, is_streaming: bool) -> Position:
    """Return the start: a timestamp takes precedence over offsets, as in Spark's source."""
    strategy = given.word("startingOffsetsByTimestampStrategy", "error", ("error", "latest"))
    rejected = {} if is_streaming else {LATEST: "is not valid as the start of a batch, which would be empty"}
    found = _by_timestamp(given, "starting", latest_if_none_later=strategy == "latest")
    return found or _by_offset(given, "startingOffsets", "latest" if is_streaming else "earliest", rejected)


def _ending(given: _Given) -> Position:
    rejected = {EARLIEST: "is not valid as an end: no record would be read"}
    found = _by_timestamp(given, "ending", latest_if_none_later=True)
    return found or _by_offset(given, "endingOffsets", "latest", rejected)


def _by_offset(given: _Given, name: str, default: str, rejected: Mapping[int, str]) -> Position:
    """Return a position by offset: earliest, latest, or an offset for each partition."""
    text = given.text(name) or default
    words = {EARLIEST: "earliest", LATEST: "latest"}
    everywhere = next((offset for offset, word in words.items() if word == text.lower()), None)
    parsed = offsets.parse(name, text, lowest=EARLIEST) if everywhere is None else None
    for offset, reason in rejected.items():
        if offset == everywhere or (parsed is not None and offset in parsed.values()):
            shown = words[offset] if offset == everywhere else f"{offset} ({words[offset]})"
            raise OptionError(f"option {name}: {shown} {reason}")
    return Position(option=name, everywhere=everywhere, offsets=parsed)


def _by_timestamp(given: _Given, side: str, *, latest_if_none_later: bool) -> Position | None:
    """Return a position by time, or None: one timestamp for all partitions takes precedence over one for each."""
    name, each = f"{side}Timestamp", f"{side}OffsetsByTimestamp"
    text, each_text = given.text(name), given.text(each)
    if text is not None:
        if not text.isdecimal():
            raise OptionError(f"option {name}: expected milliseconds since 1970, found {text!r}")
        return Position(option=name, timestamps_ms=int(text), latest_if_none_later=latest_if_none_later)
    if each_text is None:
        return None
    times = offsets.parse(each, each_text, lowest=0)
    return Position(option=each, timestamps_ms=times, latest_if_none_later=latest_if_none_later)


def writing(options: Mapping[str, str]) -> WriteOptions:
    """Return a writer's options. Raises OptionError, which names the option."""
    given = _Given(options, WRITING)
    missing = given.word("marksMissing", "refuse", ("refuse", "renew"))
    settings = client.from_options(given.values)
    return WriteOptions(settings=settings, topic=given.text("topic") or None, marks_missing=missing)
