"""The Processor API: a user's Python class that sees each record of a key, keeps stores, and sets timers.

    class Alarm:
        def init(self, context):            # once in each task, before the first record
            self.context = context
            self.count = context.store("count")

        def process(self, record):          # each record, in the order of its partition
            count = (self.count.get() or 0) + 1
            self.count.put(count)
            if count % 10 == 0:
                self.context.forward({"count": count})

    stream.process(Alarm, "STRUCT<count: BIGINT>", stores=("count",))

A store holds one value for each key, the current record's; Spark keeps state by key, where Kafka has a store for a
whole partition. Values are kept as JSON. `punctuate(key, timestamp_ms)` is called when a timer that the key set with
`context.schedule(at_ms)` is due, by event time or by the clock, as `time` of process() says.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
    ValueState,
)
from pyspark.sql.types import DataType, StringType, StructField, StructType, TimestampType
from typing_extensions import override

from kvorum.pipelines.frames import record_frame
from kvorum.pipelines.streams.state import (
    EPOCH,
    MILLISECOND,
    in_order,
    millis,
    pack,
    unpack,
    untimed_order,
    with_state,
)
from kvorum.pipelines.streams.topology import Mode

STATE: Final = StructType([StructField("json", StringType())])
Time = Literal["none", "event", "processing"]
TIME_MODES: Final[Mapping[Time, str]] = {"none": "None", "event": "EventTime", "processing": "ProcessingTime"}


class Processor(Protocol):
    """Interface of the processors of process(). `init`, `punctuate` and `close` are optional."""

    def process(self, record: "Record") -> None:
        """Handle one record."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record as Python sees it: structs are dicts, times are aware datetimes."""

    key: Any
    value: Any
    timestamp_ms: int
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Store:
    """One value for the current key."""

    _state: ValueState

    def get(self) -> Any:
        """Return the key's value, or None."""
        kept = self._state.get()
        return None if kept is None else json.loads(kept[0])

    def put(self, value: Any) -> None:
        """Keep what JSON can hold; None deletes it."""
        self.delete() if value is None else self._state.update((json.dumps(value),))

    def delete(self) -> None:
        """Forget the key's value."""
        self._state.clear()


@dataclass(slots=True, kw_only=True)
class ProcessorContext:
    """Services for a processor. It is the same object for the life of the processor."""

    stores: Mapping[str, Store]
    handle: StatefulProcessorHandle
    stream_time_ms: int = -1
    """The watermark (time="event"), else -1."""
    system_time_ms: int = -1
    """The clock at the start of the micro-batch, -1 without timers."""
    timestamp_ms: int = 0
    """Of the record or timer that is handled: what is forwarded gets it."""
    forwarded: list[tuple[Any, Any, int]] = field(default_factory=list)

    def store(self, name: str) -> Store:
        """Return one of the stores given to process()."""
        return self.stores[name]

    def forward(self, value: Any, *, key: Any = None, timestamp_ms: int | None = None) -> None:
        """Send a record downstream. Its key is the current one, unless process() was given a key_type."""
        self.forwarded.append((key, value, self.timestamp_ms if timestamp_ms is None else timestamp_ms))

    def schedule(self, at_ms: int) -> None:
        """Set a timer of the current key."""
        self.handle.registerTimer(at_ms)

    def cancel(self, at_ms: int) -> None:
        """Take a timer of the current key back."""
        self.handle.deleteTimer(at_ms)


def process(
    frame: DataFrame,
    *,
    processor: Callable[[], Processor] | StatefulProcessor,
    value_type: str,
    key_type: str | None,
    stores: tuple[str, ...],
    time: Time,
    mode: Mode,
) -> DataFrame:
    """Return what a user's Processor forwards, or a StatefulProcessor of Spark's returns."""
    own_key_type = frame.schema["key"].dataType
    has_new_keys = key_type is not None or isinstance(processor, StatefulProcessor)
    made_key = DataType.fromDDL(key_type) if key_type else own_key_type if has_new_keys else StringType()
    output = StructType().add("key", made_key).add("value", DataType.fromDDL(value_type))
    output = output.add("timestamp", TimestampType())
    if not isinstance(processor, StatefulProcessor):
        processor = ProcessorRunner(processor, stores, has_new_keys)
    if time == "event":
        frame = frame.withWatermark("timestamp", "0 milliseconds")
    timestamp, *position = untimed_order()
    rows = frame.select(pack("key").alias("_key"), "key", "value", timestamp, "topic", *position, "headers")
    made = with_state(rows, processor, output, mode, TIME_MODES[time])
    return record_frame(made, key="key" if has_new_keys else unpack("key", {"key": own_key_type}).getField("key"))


class ProcessorRunner(StatefulProcessor):
    """Runs a Processor in Spark's terms. Rows come in groups of `_key`, the packed key."""

    def __init__(self, factory: Callable[[], Any], stores: tuple[str, ...], has_own_keys: bool) -> None:
        """Store the arguments of process()."""
        self._factory = factory
        self._stores = stores
        self._has_own_keys = has_own_keys
        self._processor: Any = None

    @override
    def init(self, handle: StatefulProcessorHandle) -> None:
        # Spark calls this on the driver as well, where the processor is not created.
        stores = {name: Store(handle.getValueState(name, STATE)) for name in self._stores}
        self._context = ProcessorContext(stores=stores, handle=handle)

    @override
    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Any]:
        self._begin(timerValues)
        for row in in_order(rows):
            at_ms = self._context.timestamp_ms = millis(row["timestamp"])
            headers = tuple((each["key"], each["value"]) for each in row["headers"] or ())
            plain = {name: row[name] for name in ("key", "value", "topic", "partition", "offset")}
            self._processor.process(Record(**plain, timestamp_ms=at_ms, headers=headers))
            yield from self._forwarded(key[0])

    @override
    def handleExpiredTimer(self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo) -> Any:
        self._begin(timerValues)
        self._context.timestamp_ms = expiredTimerInfo.getExpiryTimeInMs()
        self._processor.punctuate(json.loads(key[0]).get("key"), self._context.timestamp_ms)
        yield from self._forwarded(key[0])

    @override
    def close(self) -> None:
        getattr(self._processor, "close", lambda: None)()

    def _begin(self, timer_values: TimerValues) -> None:
        self._context.stream_time_ms = timer_values.getCurrentWatermarkInMs()
        self._context.system_time_ms = timer_values.getCurrentProcessingTimeInMs()
        if self._processor is None:
            self._processor = self._factory()
            getattr(self._processor, "init", lambda context: None)(self._context)

    def _forwarded(self, packed_key: str) -> Iterator[Row]:
        for key, value, timestamp_ms in self._context.forwarded:
            at = EPOCH + timestamp_ms * MILLISECOND
            yield Row(key=key if self._has_own_keys else packed_key, value=value, timestamp=at)
        self._context.forwarded.clear()
