"""Query parameters of browsing a topic: start, end, filter and formats."""

from kvorum.admin.http.operations import INT64_MAX, BadInput, Call, NoBody, number_of
from kvorum.admin.v1.models import INT32_MAX
from kvorum.admin.v1.records.producing import bytes_of
from kvorum.client.records.browsing import Browser, Limits, Progress
from kvorum.client.records.expression import BadExpression, Expression, parse
from kvorum.client.records.reading import Reader
from kvorum.client.records.record_filter import ANY, PARTITIONERS, RecordFilter, key_partitions
from kvorum.client.records.record_views import FORMATS, Format, RecordView
from kvorum.client.wire.cluster_client import READ_COMMITTED, READ_UNCOMMITTED, ClusterClient

ISOLATIONS = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}
STARTS = ("from", "offset", "offsets", "timestamp_ms", "tail")
TAIL_MAX = 10_000


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
        wanted=None if wanted.is_of_all else wanted,
    )


def limits_of(call: Call[NoBody], default: Limits, most: Limits) -> Limits:
    """Return where to stop. Raises BadInput."""
    return Limits(
        records=call.number("limit", default.records, 1, most.records),
        scanned=call.number("scanned", default.scanned, 1, most.scanned),
        size=call.number("bytes", default.size, 1, most.size),
        time_ms=call.number("time_ms", default.time_ms, 1, most.time_ms),
    )


def reader_of(call: Call[NoBody], cluster: ClusterClient) -> Reader:
    """Return what reads the topic. Raises BadInput."""
    isolation = call.choice("isolation", "read_uncommitted", [*ISOLATIONS])
    return Reader(cluster, call.path["topic"], ISOLATIONS[isolation])


def view_of(call: Call[NoBody]) -> RecordView:
    """Return the formats of keys and values. Raises BadInput."""
    key, value = (Format(call.choice(name, "auto", FORMATS)) for name in ("key_format", "value_format"))
    return RecordView(call.path["topic"], key, value)


def filter_of(call: Call[NoBody]) -> RecordFilter:
    """Return the filter. Raises BadInput."""
    view = view_of(call)
    if "key" in call.query:
        return RecordFilter(view, expression_of(call), key_of(call.query["key"], view.key))
    if "partitioner" in call.query:
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
    text = call.query.get("filter", "")
    try:
        return parse(text) if text.strip() else None
    except BadExpression as error:
        raise BadInput("filter", str(error)) from error


async def places_of(
    call: Call[NoBody], reader: Reader, start: str, key: bytes | None = None
) -> tuple[dict[int, int], dict[int, int]]:
    """Return ({partition: where to begin}, {partition: where it ends now}). Raises BadInput, KafkaError."""
    ways = [name for name in STARTS if name in call.query]
    if len(ways) > 1:
        raise BadInput(ways[1], f"give only one start: {ways[0]} or {ways[1]}")
    explicit = offsets_of(call)
    requested = call.numbers("partitions", INT32_MAX)
    if explicit is not None and requested is not None:
        raise BadInput("partitions", "offsets already selects the partitions: leave partitions out")
    at = {name: call.number(name, 0, 0, INT64_MAX) for name in ("offset", "timestamp_ms") if name in call.query}
    tail = call.optional_number("tail", 1, TAIL_MAX)
    word = call.choice("from", start, ("earliest", "latest"))
    named = None if explicit is None and requested is None else sorted(explicit or requested or ())
    partitions = await partitions_of(call, reader, named, key)
    earliest, ends = await reader.ends(partitions)
    if explicit is not None:
        begin = explicit
    elif "offset" in at:
        begin = dict.fromkeys(partitions, at["offset"])
    elif "timestamp_ms" in at:
        found = await reader.at_time(partitions, at["timestamp_ms"])
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
    return list(key_partitions(key, len(partitions), call.choice("partitioner", ANY, (ANY, *PARTITIONERS))))


def offsets_of(call: Call[NoBody], parameter: str = "offsets") -> dict[int, int] | None:
    """Return {partition: offset} of 0:12,1:40, None without the parameter. Raises BadInput."""
    text = call.query.get(parameter)
    if text is None:
        return None
    found: dict[int, int] = {}
    for part in text.split(","):
        partition, colon, offset = part.partition(":")
        if not colon:
            raise BadInput(parameter, "expected PARTITION:OFFSET,PARTITION:OFFSET")
        found[number_of(parameter, partition, 0, INT32_MAX)] = number_of(parameter, offset, 0, INT64_MAX)
    return found


def places_text(offsets: dict[int, int]) -> str:
    """Return offsets as the parameter has them."""
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(offsets.items()))


def limits_text(default: Limits, most: Limits) -> dict[str, str]:
    """Return the parameters of limits."""
    return {
        "limit": f"maximum number of records found, 1 to {most.records} (default {default.records})",
        "scanned": f"maximum number of records inspected, 1 to {most.scanned} (default {default.scanned})",
        "bytes": f"maximum number of bytes read, 1 to {most.size} (default {default.size})",
        "time_ms": f"maximum duration, 1 to {most.time_ms} (default {default.time_ms})",
    }


CHOICE = {
    "partitions": "only these, comma-separated",
    "from": "earliest or latest",
    "offset": "start offset in each partition",
    "offsets": "start offsets, as PARTITION:OFFSET,...; only these partitions",
    "timestamp_ms": "start at the first record with at least this timestamp",
    "tail": f"start this many records before the end of each partition, 1 to {TAIL_MAX}",
    "isolation": "read_uncommitted (default) or read_committed",
    "key": "only records of this key, in key_format, in the partition that the partitioner selects or in `partitions`",
    "partitioner": f"{', '.join(PARTITIONERS)} (default: {ANY} of them)",
    "filter": 'filter expression, for example value.amount > 100 && headers.source == "web"',
    "key_format": f"{', '.join(FORMATS)}; default auto",
    "value_format": f"{', '.join(FORMATS)}; default auto",
}
