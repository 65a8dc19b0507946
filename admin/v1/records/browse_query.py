"""Query parameters of browsing a topic: start, end, filter and formats."""

from kvorum.admin.http.operations import Call, NoBody
from kvorum.admin.http.parameters import (
    INT64_MAX,
    TOPIC_NAME,
    BadInput,
    Parameter,
    choice,
    count,
    number_of,
    numbers,
    optional_number,
    optional_text,
    text,
)
from kvorum.admin.v1.models import INT32_MAX
from kvorum.admin.v1.records.record_encoding import bytes_of
from kvorum.client.records.expression import BadExpression, Expression, parse
from kvorum.client.records.record_browser import Browser, Limits, Progress
from kvorum.client.records.record_filter import ANY, PARTITIONERS, RecordFilter, key_partitions
from kvorum.client.records.record_reader import Reader
from kvorum.client.records.record_views import FORMATS, Format, RecordView
from kvorum.client.wire.cluster_client import ClusterClient, IsolationLevel

ISOLATIONS = {"read_uncommitted": IsolationLevel.READ_UNCOMMITTED, "read_committed": IsolationLevel.READ_COMMITTED}
TAIL_MAX = 10_000
PLACES = r"^[0-9]{1,10}:[0-9]{1,19}(,[0-9]{1,10}:[0-9]{1,19})*$"


def parse_offsets(name: str, text: str) -> dict[int, int]:
    """Return {partition: offset} of 0:12,1:40. Raises BadInput."""
    found: dict[int, int] = {}
    for part in text.split(","):
        partition, colon, offset = part.partition(":")
        if not colon:
            raise BadInput(name, "expected PARTITION:OFFSET,PARTITION:OFFSET")
        found[number_of(name, partition, 0, INT32_MAX)] = number_of(name, offset, 0, INT64_MAX)
    return found


def offsets(name: str, doc: str) -> Parameter[dict[int, int] | None]:
    """Return a parameter that is an offset per partition."""
    schema = {"type": "string", "pattern": PLACES}
    return Parameter(name=name, doc=doc, schema=schema, parse=parse_offsets, default=None)


PARTITIONS = numbers("partitions", "only these, comma-separated", INT32_MAX)
FROM = choice("from", "earliest or latest", ("earliest", "latest"), "")
OFFSET = optional_number("offset", "start offset in each partition", 0, INT64_MAX)
OFFSETS = offsets("offsets", "start offsets, as PARTITION:OFFSET,...; only these partitions")
TIMESTAMP_MS = optional_number("timestamp_ms", "start at the first record with at least this timestamp", 0, INT64_MAX)
TAIL = optional_number(
    "tail", f"start this many records before the end of each partition, 1 to {TAIL_MAX}", 1, TAIL_MAX
)
ISOLATION = choice("isolation", "read_uncommitted (default) or read_committed", [*ISOLATIONS], "read_uncommitted")
KEY = optional_text(
    "key",
    "only records of this key, in key_format, in the partition that the partitioner selects or in `partitions`",
)
PARTITIONER = choice("partitioner", f"{', '.join(PARTITIONERS)} (default: {ANY} of them)", (ANY, *PARTITIONERS), ANY)
FILTER = text("filter", 'filter expression, for example value.amount > 100 && headers.source == "web"')
KEY_FORMAT = choice("key_format", f"{', '.join(FORMATS)}; default auto", FORMATS, "auto")
VALUE_FORMAT = choice("value_format", f"{', '.join(FORMATS)}; default auto", FORMATS, "auto")
STARTS = (FROM, OFFSET, OFFSETS, TIMESTAMP_MS, TAIL)
NARROWED = (PARTITIONS, ISOLATION, KEY, PARTITIONER, FILTER, KEY_FORMAT, VALUE_FORMAT)
CHOICE = (PARTITIONS, *STARTS, *NARROWED[1:])


def limit_parameters(default: Limits, most: Limits) -> tuple[Parameter[int], ...]:
    """Return the parameters of limits."""
    return (
        count("maximum number of records found", default=default.records, most=most.records),
        count("maximum number of records inspected", name="scanned", default=default.scans_max, most=most.scans_max),
        count("maximum number of bytes read", name="bytes", default=default.size, most=most.size),
        count("maximum duration", name="time_ms", default=default.time_ms, most=most.time_ms),
    )


async def browser_of(
    call: Call[NoBody], cluster: ClusterClient, default: Limits, most: Limits, start: str, follow: bool = False
) -> Browser:
    """Return the browser for the query. Raises BadInput, KafkaError."""
    limits, wanted, reader = limits_of(call, default, most), filter_of(call), reader_of(call, cluster)
    offsets, ends = await places_of(call, reader, start, wanted.key)
    return Browser(
        reader=reader,
        progress=Progress(offsets=offsets),
        limits=limits,
        clock=call.clock,
        ends=None if follow else ends,
        filter=None if wanted.is_of_all else wanted,
    )


def limits_of(call: Call[NoBody], default: Limits, most: Limits) -> Limits:
    """Return where to stop. Raises BadInput."""
    records, scanned, size, time_ms = (each.of(call) for each in limit_parameters(default, most))
    return Limits(records=records, scans_max=scanned, size=size, time_ms=time_ms)


def reader_of(call: Call[NoBody], cluster: ClusterClient) -> Reader:
    """Return what reads the topic. Raises BadInput."""
    return Reader(cluster, TOPIC_NAME.of(call), ISOLATIONS[ISOLATION.of(call)])


def view_of(call: Call[NoBody]) -> RecordView:
    """Return the formats of keys and values. Raises BadInput."""
    return RecordView(TOPIC_NAME.of(call), Format(KEY_FORMAT.of(call)), Format(VALUE_FORMAT.of(call)))


def filter_of(call: Call[NoBody]) -> RecordFilter:
    """Return the filter. Raises BadInput."""
    view = view_of(call)
    key = KEY.of(call)
    if key is not None:
        return RecordFilter(view, expression_of(call), key_of(key, view.key))
    if PARTITIONER.is_given(call):
        raise BadInput("partitioner", "a partitioner requires a key: add the parameter key")
    return RecordFilter(view, expression_of(call))


def key_of(text: str, form: Format) -> bytes:
    """Return the bytes of a key that is written in a format; a text where that is auto. Raises BadInput."""
    if form is Format.SIZE:
        raise BadInput("key_format", "key_format=size cannot encode a key: choose another format")
    plain = form in (Format.AUTO, Format.JSON, Format.TEXT)
    found = bytes_of(text, "string" if plain else form.value, "key")
    assert found is not None, "a text is not null"
    return found


def expression_of(call: Call[NoBody]) -> Expression | None:
    """Return the filter. Raises BadInput."""
    given = FILTER.of(call)
    try:
        return parse(given) if given.strip() else None
    except BadExpression as error:
        raise BadInput("filter", str(error)) from error


async def places_of(
    call: Call[NoBody], reader: Reader, start: str, key: bytes | None = None
) -> tuple[dict[int, int], dict[int, int]]:
    """Return ({partition: where to begin}, {partition: where it ends now}). Raises BadInput, KafkaError."""
    ways = [each.name for each in STARTS if each.is_given(call)]
    if len(ways) > 1:
        raise BadInput(ways[1], f"give only one start: {ways[0]} or {ways[1]}")
    explicit = OFFSETS.of(call)
    requested = PARTITIONS.of(call)
    if explicit is not None and requested is not None:
        raise BadInput("partitions", "offsets already selects the partitions: leave partitions out")
    offset, timestamp_ms, tail = OFFSET.of(call), TIMESTAMP_MS.of(call), TAIL.of(call)
    word = FROM.of(call) or start
    named = None if explicit is None and requested is None else sorted(explicit or requested or ())
    partitions = await partitions_of(call, reader, named, key)
    earliest, ends = await reader.ends(partitions)
    if explicit is not None:
        begin = explicit
    elif offset is not None:
        begin = dict.fromkeys(partitions, offset)
    elif timestamp_ms is not None:
        found = await reader.at_time(partitions, timestamp_ms)
        begin = {each: ends[each] if found[each] < 0 else found[each] for each in partitions}
    elif tail is not None:
        begin = {each: ends[each] - tail for each in partitions}
    else:
        begin = earliest if word == "earliest" else ends
    return {each: min(max(begin[each], earliest[each]), ends[each]) for each in partitions}, ends


async def partitions_of(call: Call[NoBody], reader: Reader, named: list[int] | None, key: bytes | None) -> list[int]:
    """Return which partitions are looked through: those named, else those where the key is, or all. Raises BadInput."""
    partitions = await reader.partitions(named)
    if key is None or named is not None:
        return list(partitions)
    return list(key_partitions(key, len(partitions), PARTITIONER.of(call)))


def places_text(offsets: dict[int, int]) -> str:
    """Return offsets as the parameter has them."""
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(offsets.items()))
