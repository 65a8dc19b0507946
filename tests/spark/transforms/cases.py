"""What is asked of the transforms, of ours and of Connect's own: tables of options and records."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

PACKAGE: Final = "org.apache.kafka.connect.transforms."
LOGICAL: Final = "org.apache.kafka.connect.data."
MOMENT: Final = 1_583_020_799_123
"""2020-02-29T23:59:59.123Z."""


def field(name: str, kind: str, /, **more: Any) -> dict[str, Any]:
    """Return a field of a schema in Connect's JSON form."""
    return {"field": name, "type": kind, "optional": True, **more}


def logical(name: str, kind: str, of: str) -> dict[str, Any]:
    return field(name, kind, name=f"{LOGICAL}{of}", version=1)


def schema(*fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "optional": True, "fields": list(fields)}


ORDER: Final = schema(
    field("id", "int64"),
    field("name", "string"),
    field("count", "int32"),
    field("price", "double"),
    field("ok", "boolean"),
)
ORDERS: Final = (
    {"id": 7, "name": "tea", "count": 3, "price": 1.5, "ok": True},
    {"id": -1, "name": None, "count": None, "price": None, "ok": None},
    None,
)
KEY: Final = schema(field("k", "string"), field("n", "int32"))
KEYS: Final = ({"k": "a", "n": 1}, {"k": None, "n": 2}, None)

WIDE: Final = schema(
    field("i8", "int8"),
    field("i16", "int16"),
    field("i32", "int32"),
    field("i64", "int64"),
    field("f32", "float"),
    field("f64", "double"),
    field("flag", "boolean"),
    field("text", "string"),
    field("blob", "bytes"),
    logical("at", "int64", "Timestamp"),
    logical("day", "int32", "Date"),
    logical("clock", "int32", "Time"),
    field("list", "array", items={"type": "string", "optional": True}),
    field("map", "map", keys={"type": "string"}, values={"type": "int32", "optional": True}),
    field("inner", "struct", fields=[field("a", "int32"), field("deep", "struct", fields=[field("b", "string")])]),
)
WIDES: Final = (
    {
        "i8": -5,
        "i16": 300,
        "i32": 70_000,
        "i64": 5_000_000_000,
        "f32": 1.5,
        "f64": -2.75,
        "flag": True,
        "text": "12",
        "blob": "AAEC",
        "at": MOMENT,
        "day": 18_321,
        "clock": 3_723_004,
        "list": ["x", None, "y"],
        "map": {"m": 1},
        "inner": {"a": 1, "deep": {"b": "z"}},
    },
    {
        "i8": 0,
        "i16": -300,
        "i32": -70_000,
        "i64": -5_000_000_000,
        "f32": -1.5e10,
        "f64": 1e300,
        "flag": False,
        "text": "no number",
        "blob": "",
        "at": 0,
        "day": 0,
        "clock": 0,
        "list": [],
        "map": {},
        "inner": {"a": None, "deep": None},
    },
    {
        name: None
        for name in (
            "i8",
            "i16",
            "i32",
            "i64",
            "f32",
            "f64",
            "flag",
            "text",
            "blob",
            "at",
            "day",
            "clock",
            "list",
            "map",
            "inner",
        )
    },
)
NESTED: Final = schema(
    field("id", "int64"),
    field("list", "array", items={"type": "string", "optional": True}),
    field(
        "a", "struct", fields=[field("b", "string"), field("c", "struct", fields=[logical("at", "int64", "Timestamp")])]
    ),
    field("z", "int32"),
)
NESTEDS: Final = (
    {"id": 1, "list": ["x"], "a": {"b": "y", "c": {"at": MOMENT}}, "z": 2},
    {"id": 2, "list": None, "a": {"b": None, "c": None}, "z": None},
    {"id": 3, "list": [], "a": None, "z": 0},
    None,
)
LOOSE: Final = (
    {"id": 7, "name": "tea", "price": 1.5, "ok": True, "gone": None, "list": [1, "a"], "inner": {"a": 1}},
    {"name": "300", "price": -2.75},
    {},
    None,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Some transforms, and the records that go through them."""

    name: str
    transforms: Sequence[Mapping[str, Any]]
    """As a pipeline's file has them."""
    predicates: Mapping[str, Mapping[str, Any]]
    values: Sequence[Any]
    value_schema: Mapping[str, Any] | None
    keys: Sequence[Any]
    key_schema: Mapping[str, Any] | None
    headers: Sequence[tuple[str, str | None]]
    timestamps: Sequence[int | None]
    topics: Sequence[str]

    def records(self) -> list[dict[str, Any]]:
        """Return the records as JSON has them: bytes as text, with Connect's envelope where there is a schema."""
        schemas = self.value_schema is not None
        return [
            {
                "topic": self.topics[index % len(self.topics)],
                "partition": 2,
                "offset": 100 + index,
                "timestamp": self.timestamps[index % len(self.timestamps)],
                "schemas": schemas,
                "key": text(self.keys[index % len(self.keys)], self.key_schema),
                "value": text(value, self.value_schema),
                "headers": self.headers,
            }
            for index, value in enumerate(self.values)
        ]


def text(value: Any, kind: Mapping[str, Any] | None) -> str | None:
    """Return a value's JSON."""
    if value is None:
        return None
    return json.dumps(value if kind is None else {"schema": kind, "payload": value})


def case(
    name: str,
    *transforms: Mapping[str, Any],
    values: Sequence[Any] = ORDERS,
    value_schema: Mapping[str, Any] | None = ORDER,
    keys: Sequence[Any] = KEYS,
    key_schema: Mapping[str, Any] | None = KEY,
    predicates: Mapping[str, Mapping[str, Any]] | None = None,
    headers: Sequence[tuple[str, str | None]] = (("h", "one"), ("g", "2"), ("h", "three")),
    timestamps: Sequence[int | None] = (MOMENT,),
    topics: Sequence[str] = ("orders",),
) -> Case:
    """Return a case; what is not said is the same everywhere."""
    return Case(
        name=name,
        transforms=transforms,
        predicates=predicates or {},
        values=values,
        value_schema=value_schema,
        keys=keys if (value_schema is None) == (key_schema is None) else (None,),
        key_schema=key_schema if value_schema is not None else None,
        headers=headers,
        timestamps=timestamps,
        topics=topics,
    )


def loose(name: str, *transforms: Mapping[str, Any], values: Sequence[Any] = LOOSE, **more: Any) -> Case:
    """Return a case of records without a schema."""
    return case(f"{name}, no schema", *transforms, values=values, value_schema=None, key_schema=None, **more)


def wide(name: str, *transforms: Mapping[str, Any]) -> Case:
    """Return a case of records of all types."""
    return case(name, *transforms, values=WIDES, value_schema=WIDE)


def one(kind: str, values: Sequence[Any], *transforms: Mapping[str, Any], **more: Any) -> Case:
    """Return a case of records whose value is a plain one."""
    said = {"type": kind, "optional": True, **more}
    options = " ".join(f"{key}={value}" for key, value in transforms[0].items() if key != "type" and value)
    of = str(more.get("name", kind)).removeprefix(LOGICAL)
    return case(f"{transforms[0]['type']} {options} of {of}", *transforms, values=values, value_schema=said)


def together(name: str, said: Mapping[str, Any], columns: Sequence[tuple[Mapping[str, Any], Sequence[Any]]]) -> Case:
    """Return a case of one plan for many transforms: each has a field of its own, of the same type."""
    rows = max(len(texts) for _, texts in columns)
    values = [
        {f"f{at}": texts[row] if row < len(texts) else None for at, (_, texts) in enumerate(columns)}
        for row in range(rows)
    ]
    fields = [{"optional": True, **said, "field": f"f{at}"} for at in range(len(columns))]
    steps = [{**transform, "field": f"f{at}"} for at, (transform, _) in enumerate(columns)]
    return case(name, *steps, values=values, value_schema=schema(*fields))


def cast(spec: str) -> dict[str, Any]:
    return {"type": "Cast$Value", "spec": spec}


def time(target: str, field_name: str = "", **more: Any) -> dict[str, Any]:
    said = {key.replace("_", "."): value for key, value in more.items()}
    return {"type": "TimestampConverter$Value", "target.type": target, "field": field_name, **said}


INSERT: Final = (
    case(
        "InsertField: all",
        {
            "type": "InsertField$Value",
            "topic.field": "t!",
            "partition.field": "p?",
            "offset.field": "o",
            "timestamp.field": "ts",
            "static.field": "s",
            "static.value": "42",
        },
    ),
    loose(
        "InsertField: all",
        {
            "type": "InsertField$Value",
            "topic.field": "t",
            "partition.field": "p",
            "offset.field": "o",
            "timestamp.field": "ts",
            "static.field": "s",
            "static.value": "42",
        },
    ),
    loose(
        "InsertField: over one that is there",
        {"type": "InsertField$Value", "static.field": "name", "static.value": "x"},
    ),
    case("InsertField: key", {"type": "InsertField$Key", "static.field": "s", "static.value": "x"}),
    case("InsertField: full class name", {"type": f"{PACKAGE}InsertField$Value", "topic.field": "t"}),
)

REPLACE: Final = (
    case("ReplaceField: exclude", {"type": "ReplaceField$Value", "exclude": "id,ok,none"}),
    case("ReplaceField: include", {"type": "ReplaceField$Value", "include": "price,id"}),
    case("ReplaceField: both", {"type": "ReplaceField$Value", "include": "price,id", "exclude": "id"}),
    case("ReplaceField: renames", {"type": "ReplaceField$Value", "renames": "name:label,none:x,id:number"}),
    case(
        "ReplaceField: renames what stays", {"type": "ReplaceField$Value", "include": "name", "renames": "name:label"}
    ),
    loose(
        "ReplaceField: exclude and renames",
        {"type": "ReplaceField$Value", "exclude": "ok,list", "renames": "name:label"},
    ),
    loose("ReplaceField: include", {"type": "ReplaceField$Value", "include": "name,inner"}),
    case("ReplaceField: key", {"type": "ReplaceField$Key", "renames": "k:key"}),
)

MASK: Final = (
    wide("MaskField: zeros", {"type": "MaskField$Value", "fields": "i8,i16,i32,i64,f32,f64,flag,text"}),
    wide("MaskField: times and collections", {"type": "MaskField$Value", "fields": "at,day,list,map"}),
    wide("MaskField: a text", {"type": "MaskField$Value", "fields": "text", "replacement": "***"}),
    wide(
        "MaskField: a number", {"type": "MaskField$Value", "fields": "i8,i16,i32,i64,f32,f64,text", "replacement": "7"}
    ),
    loose("MaskField: zeros", {"type": "MaskField$Value", "fields": "id,name,price,ok,gone,list,inner"}),
    loose("MaskField: a text", {"type": "MaskField$Value", "fields": "name", "replacement": "***"}),
)

SHAPE: Final = (
    case("ValueToKey", {"type": "ValueToKey", "fields": "name,id"}),
    loose("ValueToKey", {"type": "ValueToKey", "fields": "name,none"}),
    case("HoistField", {"type": "HoistField$Value", "field": "h"}),
    loose("HoistField", {"type": "HoistField$Value", "field": "h"}),
    case("HoistField: key", {"type": "HoistField$Key", "field": "h"}),
    case("ExtractField", {"type": "ExtractField$Value", "field": "name"}),
    case("ExtractField: key", {"type": "ExtractField$Key", "field": "k"}),
    wide("ExtractField: a struct", {"type": "ExtractField$Value", "field": "inner"}),
    wide("ExtractField: a path", {"type": "ExtractField$Value", "field": "inner.deep.b", "field.syntax.version": "V2"}),
    loose("ExtractField", {"type": "ExtractField$Value", "field": "name"}),
    loose("ExtractField: none", {"type": "ExtractField$Value", "field": "none"}),
    loose("ExtractField: a path", {"type": "ExtractField$Value", "field": "inner.a", "field.syntax.version": "V2"}),
    case(
        "ValueToKey and ExtractField",
        {"type": "ValueToKey", "fields": "id"},
        {"type": "ExtractField$Key", "field": "id"},
        values=ORDERS[:2],
    ),
    case("SetSchemaMetadata", {"type": "SetSchemaMetadata$Value", "schema.name": "shop.Order", "schema.version": "3"}),
    case("Flatten", {"type": "Flatten$Value"}, values=NESTEDS, value_schema=NESTED),
    case("Flatten: delimiter", {"type": "Flatten$Value", "delimiter": "_"}, values=NESTEDS, value_schema=NESTED),
    wide("Flatten: with a map", {"type": "Flatten$Value"}),
)

NUMBERS: Final = ("i8", "i16", "i32", "i64", "f32", "f64", "flag")
KINDS: Final = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")
PAIRS: Final = [(name, kind) for name in (*NUMBERS, "text") for kind in KINDS]
BY_NAME: Final = {one["field"]: one for one in WIDE["fields"]}
CAST: Final = (
    case(
        "Cast: all to all",
        cast(",".join(f"{name}_{kind}:{kind}" for name, kind in PAIRS)),
        values=[
            {f"{name}_{kind}": row[name] for name, kind in PAIRS}
            for row in ({**WIDES[0]}, {**WIDES[1], "text": "-1"}, WIDES[2])
        ],
        value_schema=schema(*({**BY_NAME[name], "field": f"{name}_{kind}"} for name, kind in PAIRS)),
    ),
    wide("Cast: text to int32", cast("text:int32")),
    wide("Cast: times", cast("at:int64,day:int32")),
    wide("Cast: times to text", cast("at:string,day:string,clock:string,blob:string")),
    one("int32", (1, 300, -200, None), cast("int8")),
    one("double", (1.9, -1.9, 1e20, -1e20, 0.5, 128.0, 3e9, None), cast("int8")),
    one("double", (1.9, -1.9, 1e20, -1e20, 0.5, 3e9, None), cast("int32")),
    one("double", (1.9, -1.9, 1e20, -1e20, 0.0, None), cast("int64")),
    one("double", (1.0, 1e10, 1e-5, 123456789.125, 1e7, None), cast("string")),
    one("float", (1.0, 1.5e10, 0.1, None), cast("string")),
    one("string", ("1", "+1", "-1", " 1", "1.0", "", "x", "127", "128", "0x1", None), cast("int8")),
    one(
        "string", ("1", "1.5", " 1.5 ", "1e3", "1f", ".5", "5.", "NaN", "x", "", "1d", "+1.5E-3", None), cast("float64")
    ),
    one("string", ("true", "TRUE", "yes", "1", "", "false", " true", None), cast("boolean")),
    one("int64", (0, MOMENT, None), cast("string"), name=f"{LOGICAL}Timestamp", version=1),
    loose("Cast", cast("id:string,price:int32,ok:string,name:boolean,none:int8")),
    loose(
        "Cast: text to number",
        cast("name:int8"),
        values=({"name": "12"}, {"name": "300"}, {"name": "x"}, {"name": 3}, {"name": None}),
    ),
    loose("Cast: to float", cast("a:float64"), values=({"a": "1.5"}, {"a": 1}, {"a": True}, {"a": 2.5})),
)

UNIX: Final = (0, 1, 1_583_020_799, MOMENT, -1, -1_500, None)
SDF: Final = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"
STAMP: Final = {"type": "int64", "name": f"{LOGICAL}Timestamp", "version": 1}
DAY: Final = {"type": "int32", "name": f"{LOGICAL}Date", "version": 1}
CLOCK: Final = {"type": "int32", "name": f"{LOGICAL}Time", "version": 1}
TARGETS: Final = ("string", "unix", "Date", "Time", "Timestamp")
PRECISIONS: Final = ("seconds", "milliseconds", "microseconds", "nanoseconds")
WRITTEN: Final = (
    SDF,
    "y M d H m s S",
    "yy MM dd HH mm ss SS",
    "yyy MMM ddd HHH mmm sss SSSS",
    "yyyyy MMMM E EEEE u F D DDD",
    "a h hh K KK k kk z zzzz Z X XX XXX G",
    "''yyyy'' 'o''clock' 'T'",
    "yyyy.MM.dd/HH:mm_ss-SSS",
)
READ: Final = (
    ("yyyyMMddHHmmss", ("20200229131415",)),
    ("yyyy-MM-dd'T'HH:mm:ss.SSSX", ("2020-02-29T13:14:15.123Z", "2020-02-29T13:14:15.123+01")),
    ("yyyy-MM-dd'T'HH:mm:ssXXX", ("2020-02-29T13:14:15+05:30", "2020-02-29T13:14:15Z")),
    ("yyyy-MM-dd HH:mm:ss Z", ("2020-02-29 13:14:15 +0100", "2020-02-29 13:14:15 -0800")),
    ("yyyy-MM-dd HH:mm:ss", ("1969-12-31 23:59:59", "2020-2-9 1:2:3")),
    ("dd MMM yyyy", ("29 Feb 2020", "1 Jan 1970")),
    ("MM/dd/yy", ("02/29/20", "1/2/03")),
    ("hh:mm a", ("01:30 PM", "12:00 AM", "12:00 PM")),
    ("HH:mm", ("13:14", "0:00")),
    ("yyyy", ("2020", "1970")),
    ("D yyyy", ("60 2020", "1 1970")),
    ("kk:mm", ("24:00", "13:00")),
)
TIMES: Final = (
    together(
        "TimestampConverter: from unix time",
        {"type": "int64"},
        [(time(to, format=SDF, unix_precision=per), UNIX) for to in TARGETS for per in ("seconds", "milliseconds")],
    ),
    together(
        "TimestampConverter: from finer unix time",
        {"type": "int64"},
        [
            (time("Timestamp", unix_precision=per), (0, 1, MOMENT * 1000 + 456, -1, -1_001, None))
            for per in PRECISIONS[2:]
        ],
    ),
    together(
        "TimestampConverter: from Timestamp",
        STAMP,
        [
            *((time(to, format=SDF), UNIX) for to in TARGETS),
            *((time("unix", unix_precision=per), UNIX) for per in PRECISIONS),
        ],
    ),
    together("TimestampConverter: from Date", DAY, [(time(to, format=SDF), (0, 18_321, -1, None)) for to in TARGETS]),
    together(
        "TimestampConverter: from Time",
        CLOCK,
        [(time(to, format=SDF), (0, 3_723_004, 86_399_999, None)) for to in TARGETS],
    ),
    together("TimestampConverter: written", STAMP, [(time("string", format=pattern), UNIX) for pattern in WRITTEN]),
    together(
        "TimestampConverter: read",
        {"type": "string"},
        [(time("unix", format=pattern), texts) for pattern, texts in READ],
    ),
    *(
        one("string", ("2020-02-29 13:14:15", "x", "", "2020-02-29", None), time(to, format="yyyy-MM-dd HH:mm:ss"))
        for to in ("unix", "Date", "Time", "Timestamp")
    ),
    one("int64", UNIX, time("Time"), **{key: value for key, value in STAMP.items() if key != "type"}),
    one("string", ("2020022913141",), time("unix", format="yyyyMMddHHmmss")),
    one("string", ("31 December 2020",), time("unix", format="dd MMM yyyy")),
    one("string", ("2020-13-01", "2020-02-30", "2020-02-29 and more"), time("unix", format="yyyy-MM-dd")),
    case("TimestampConverter: no such field", time("string", "none", format="yyyy")),
    loose(
        "TimestampConverter: a field to text",
        time("string", "id", format="yyyy-MM-dd"),
        values=({"id": MOMENT, "b": 1}, {"id": None}, {}, None),
    ),
    loose(
        "TimestampConverter: a field from text",
        time("unix", "t", format="yyyy-MM-dd"),
        values=({"t": "2020-02-29"}, {"t": "x"}),
    ),
    loose("TimestampConverter: the whole", time("unix", format="yyyy-MM-dd"), values=("2020-02-29", None)),
)

TOPICS: Final = ("orders", "orders-2020", "a.b", "x1y2")
ROUTES: Final = (
    case("TimestampRouter", {"type": "TimestampRouter"}, timestamps=(MOMENT, 0)),
    case(
        "TimestampRouter: formats",
        {"type": "TimestampRouter", "topic.format": "${timestamp}_${topic}_${topic}", "timestamp.format": "yyyy/MM"},
    ),
    case("TimestampRouter: no time", {"type": "TimestampRouter"}, timestamps=(None,)),
    *(
        case(
            f"RegexRouter: {regex} {replacement}",
            {"type": "RegexRouter", "regex": regex, "replacement": replacement},
            topics=TOPICS,
            values=("x", None, "y", "z"),
            value_schema={"type": "string", "optional": True},
        )
        for regex, replacement in (
            ("(.*)", "p.$1"),
            ("(.*)-(.*)", "$2-$1"),
            (".*", "x"),
            ("order", "x"),
            ("orders|a.b", "y"),
            ("(?<w>[a-z]+)s.*", "${w}"),
            ("o.*?s", "z"),
            ("[a-z]|[a-z]\\d.*", "q"),
            ("x(\\d)y(\\d)", "$2$1\\$"),
        )
    ),
)

LITERALS: Final = (
    "a b",
    "42",
    "-0042",
    "1.50",
    "1.0",
    "1e3",
    "true",
    "TRUE",
    "null",
    '"quoted"',
    "[1,2]",
    '{"a":1}',
    "2020-02-29",
    "2020-02-29T13:14:15.123Z",
    "x",
    "12345678901234567890",
    " padded ",
    "0.1",
    "13:14:15.123Z",
    "[1, 2]",
    '["a"]',
    '{"a": "b"}',
    "007",
    "+5",
    "1.5f",
    "NaN",
    "it's",
    'say \\"hi\\"',
    "a,b",
    "3.4028236E38",
    "1e400",
)
HEADERS: Final = (
    case("DropHeaders", {"type": "DropHeaders", "headers": "h,none"}),
    case("DropHeaders: none there", {"type": "DropHeaders", "headers": "h"}, headers=()),
    case(
        "InsertHeader",
        *(
            {"type": "InsertHeader", "header": f"n{at}", "value.literal": literal}
            for at, literal in enumerate(LITERALS)
        ),
        values=ORDERS[:1],
    ),
    case("InsertHeader: none there", {"type": "InsertHeader", "header": "n", "value.literal": "x"}, headers=()),
    case(
        "HeaderFrom: copy",
        {"type": "HeaderFrom$Value", "fields": "id,name,count,price,ok", "headers": "a,b,c,d,e", "operation": "copy"},
    ),
    case("HeaderFrom: move", {"type": "HeaderFrom$Value", "fields": "name,id", "headers": "h,b", "operation": "move"}),
    case(
        "HeaderFrom: key",
        {"type": "HeaderFrom$Key", "fields": "k", "headers": "k", "operation": "move"},
        keys=KEYS[:2],
        values=ORDERS[:2],
    ),
    wide(
        "HeaderFrom: times",
        {
            "type": "HeaderFrom$Value",
            "fields": "at,day,clock,f32,f64,blob",
            "headers": "a,d,c,f,g,b",
            "operation": "copy",
        },
    ),
    loose(
        "HeaderFrom: copy",
        {"type": "HeaderFrom$Value", "fields": "id,name,none", "headers": "a,b,c", "operation": "copy"},
    ),
    loose(
        "HeaderFrom: move", {"type": "HeaderFrom$Value", "fields": "id,price", "headers": "a,b", "operation": "move"}
    ),
)

P: Final = f"{PACKAGE}predicates."
CONDITIONS: Final = (
    case("Filter", {"type": "Filter"}),
    case("Filter: tombstones", {"type": "Filter", "predicate": "p"}, predicates={"p": {"type": "RecordIsTombstone"}}),
    case(
        "Filter: all but tombstones",
        {"type": "Filter", "predicate": "p", "negate": True},
        predicates={"p": {"type": f"{P}RecordIsTombstone"}},
    ),
    case(
        "Filter: topic",
        {"type": "Filter", "predicate": "p"},
        predicates={"p": {"type": "TopicNameMatches", "pattern": "order|a.b|x.*"}},
        topics=TOPICS,
        values=(*ORDERS, ORDERS[0]),
    ),
    case(
        "Filter: header", {"type": "Filter", "predicate": "p"}, predicates={"p": {"type": "HasHeaderKey", "name": "g"}}
    ),
    case(
        "Filter: header, negated",
        {"type": "Filter", "predicate": "p", "negate": True},
        predicates={"p": {"type": "HasHeaderKey", "name": "none"}},
    ),
    loose(
        "InsertField: some",
        {"type": "InsertField$Value", "static.field": "s", "static.value": "x", "predicate": "p"},
        predicates={"p": {"type": "TopicNameMatches", "pattern": "o.*"}},
        topics=("orders", "a"),
    ),
    case(
        "MaskField: some",
        {"type": "MaskField$Value", "fields": "name", "predicate": "p"},
        predicates={"p": {"type": "TopicNameMatches", "pattern": "o.*"}},
        topics=("orders", "a"),
        values=(ORDERS[0], ORDERS[0]),
    ),
    case(
        "RegexRouter: some",
        {"type": "RegexRouter", "regex": ".*", "replacement": "dead", "predicate": "p"},
        predicates={"p": {"type": "RecordIsTombstone"}},
    ),
    case(
        "a chain",
        {"type": "InsertField$Value", "topic.field": "from"},
        {"type": "ReplaceField$Value", "renames": "from:source", "exclude": "ok"},
        {"type": "Cast$Value", "spec": "id:string"},
        {"type": "RegexRouter", "regex": "(.*)", "replacement": "$1-out"},
    ),
)

CASES: Final[Sequence[Case]] = (*INSERT, *REPLACE, *MASK, *SHAPE, *CAST, *TIMES, *ROUTES, *HEADERS, *CONDITIONS)
