"""TimestampConverter and TimestampRouter: moments in other types, and in topics' names. All in UTC, as Connect."""

from typing import Final, Literal, Self

from pydantic import Field as Option
from pydantic import model_validator
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    DateType,
    IntegerType,
    LongType,
    StringType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VariantType,
)

from kvorum.pipelines.transforms import moments, patterns, values
from kvorum.pipelines.transforms.fields import WithDefaults, only_objects
from kvorum.pipelines.transforms.steps import Change, Options, Part, Record, Wrong
from kvorum.pipelines.transforms.values import Field, TransformError, Value

Target = Literal["string", "unix", "Date", "Time", "Timestamp"]
TARGETS: Final[dict[str, DataType]] = {
    "string": StringType(),
    "unix": LongType(),
    "Date": DateType(),
    "Time": IntegerType(),
    "Timestamp": TimestampType(),
}
PER_SECOND: Final = {"seconds": 1, "milliseconds": 1000, "microseconds": 1_000_000, "nanoseconds": 1_000_000_000}


class TimestampConverterOptions(WithDefaults):
    """Field to convert (the whole value by default), and the target type."""

    field: str = ""
    target: Target = Option(alias="target.type")
    format: str = ""
    """A pattern of Java's SimpleDateFormat, where text is read or written."""
    precision: Literal["seconds", "milliseconds", "microseconds", "nanoseconds"] = Option(
        default="milliseconds", alias="unix.precision"
    )

    @model_validator(mode="after")
    def _written(self) -> Self:
        if self.target == "string" and not self.format.strip():
            raise ValueError("a format is needed to write text")
        if self.format:
            patterns.tokens(self.format)
        return self


def timestamp_converter(record: Record, options: TimestampConverterOptions, part: Part) -> Change:
    """Convert between text, unix time, Date, Time and Timestamp. Null stays null; invalid text fails."""
    value = record.value(part)
    if not options.field:
        return _whole(value, options, part)
    if value.schemaless:
        was = values.item(value, options.field)
        column, kind, wrong = converted(was, options)
        made = Field(name=options.field, column=column, type=kind)
        return Change(
            columns={part: values.put(value, [made])}, wrong=[*only_objects(value, "TimestampConverter"), *wrong]
        )
    wrong, fields = list[Wrong](), list[Field]()
    for one in values.fields(value, "TimestampConverter", defaults=options.replace_null):
        if one.name == options.field:
            column, kind, wrong = converted(one.seen, options)
            one = one.becoming(column, kind, schema_name(options))
        fields.append(one)
    return Change(columns={part: values.rebuilt(value, fields)}, wrong=wrong)


def _whole(value: Value, options: TimestampConverterOptions, part: Part) -> Change:
    seen = Field(name=part, column=value.column, type=value.type, metadata=value.metadata).seen
    column, kind, wrong = converted(seen, options)
    if isinstance(value.type, VariantType):
        return Change(columns={part: Value(column=column.cast(VariantType()), type=VariantType())}, wrong=wrong)
    metadata = values.named_schema(schema_name(options))
    return Change(columns={part: Value(column=column, type=kind, metadata=metadata)}, wrong=wrong)


def schema_name(options: TimestampConverterOptions) -> str | None:
    """Return the name of the target's schema, if its type does not imply it."""
    return moments.TIME_NAME if options.target == "Time" else None


def converted(was: Value, options: TimestampConverterOptions) -> tuple[Column, DataType, list[Wrong]]:
    """Return a moment in the target type, that type, and what cannot be converted."""
    if isinstance(was.type, VariantType):
        moment = _moment_of_variant(was.column, options)
    else:
        moment = _moment(was.column, was.type, options)
    subject = f"{options.field!r}" if options.field else "the value"
    wrong = Wrong(when=was.column.isNotNull() & moment.isNull(), message=f"TimestampConverter: {subject} is no time")
    return target(moment, options), TARGETS[options.target], [wrong]


def _moment(column: Column, kind: DataType, options: TimestampConverterOptions) -> Column:
    match kind:
        case StringType():
            if not options.format:
                raise TransformError("a format is needed to read text")
            return patterns.parsed(column, options.format)
        case LongType():
            return from_unix(column, options.precision)
        case moments.Clock() | DateType() | TimestampType() | TimestampNTZType() | TimeType():
            return moments.millis(column, kind)
        case _:
            raise TransformError(f"{kind.simpleString()} is not a time; use string, bigint, date, time or timestamp")


def _moment_of_variant(column: Column, options: TimestampConverterOptions) -> Column:
    kind = F.schema_of_variant(column)
    number = from_unix(F.try_variant_get(column, "$", "bigint"), options.precision)
    moment = F.unix_millis(F.try_variant_get(column, "$", "timestamp"))
    found = F.when(kind == "BIGINT", number).when(kind.isin("TIMESTAMP", "TIMESTAMP_NTZ", "DATE"), moment)
    if not options.format:
        return found
    return found.when(kind == "STRING", patterns.parsed(F.try_variant_get(column, "$", "string"), options.format))


def from_unix(column: Column, precision: str) -> Column:
    """Return unix time as milliseconds."""
    per_second = PER_SECOND[precision]
    if per_second <= 1000:
        return column * F.lit(1000 // per_second).cast("long")
    return moments.divided(column, per_second // 1000)


def target(moment: Column, options: TimestampConverterOptions) -> Column:
    """Return milliseconds in the target's type."""
    match options.target:
        case "string":
            return patterns.formatted(moment, options.format)
        case "unix":
            per_second = PER_SECOND[options.precision]
            if per_second < 1000:
                return moments.divided(moment, 1000 // per_second)
            return moment * F.lit(per_second // 1000).cast("long")
        case "Date":
            return F.date_from_unix_date(moments.floored(moment, moments.DAY_MS).cast("int"))
        case "Time":
            return F.pmod(moment, F.lit(moments.DAY_MS).cast("long")).cast("int")
        case _:
            return F.timestamp_millis(moment)


class TimestampRouterOptions(Options):
    """How the new topic is called."""

    topic_format: str = Option(default="${topic}-${timestamp}", alias="topic.format")
    timestamp_format: str = Option(default="yyyyMMdd", alias="timestamp.format")


def timestamp_router(record: Record, options: TimestampRouterOptions, part: Part) -> Change:
    """Name the topic after the record's time. A record without one fails."""
    moment = patterns.formatted(F.unix_millis("timestamp"), options.timestamp_format)
    named = F.lit(options.topic_format)
    named = F.replace(named, F.lit("${topic}"), F.col("topic"))
    named = F.replace(named, F.lit("${timestamp}"), moment)
    wrong = Wrong(when=F.col("timestamp").isNull(), message="TimestampRouter: the record has no timestamp")
    return Change(columns={"topic": Value(column=named, type=StringType())}, wrong=[wrong])
