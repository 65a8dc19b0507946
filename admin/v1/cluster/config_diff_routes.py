"""Differences of configs over HTTP: between brokers, between topics, and to the values without a layer."""

import asyncio

from pydantic import BaseModel, Field

from kvorum.admin.http.operations import Call, NoBody, Operation
from kvorum.admin.http.parameters import BadInput, flag, words
from kvorum.client.metadata_log.config_diff import BadColumn, Column, Layer, parse_column, rows_of
from kvorum.client.wire.cluster_client import ResourceType, Unreachable
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_configs import DescribeConfigsResourceResult

COLUMNS_MAX = 20
"""Limit of columns that are readable next to each other."""
ALL_BROKERS = "brokers"


OF = words(
    "of",
    f"2 to {COLUMNS_MAX} columns: broker:1,broker:2:static or topic:a,topic:b; or brokers",
    examples=["broker:1,broker:1:static"],
)
ALL = flag("all", "true: include equal configs")


class DiffCell(BaseModel):
    """A config's value in one column."""

    value: str | None = Field(description="null: not set, or a secret")
    source: str = Field(examples=["STATIC_BROKER_CONFIG"])
    sensitive: bool


class DiffRow(BaseModel):
    """A config in all columns."""

    name: str
    differs: bool
    own: bool = Field(description="The config differs per broker: id, listeners, directories, rack")
    cells: list[DiffCell | None] = Field(description="Per column; null: unknown config, or not set up to that layer")


class ConfigDiff(BaseModel):
    """A comparison of configs."""

    columns: list[str] = Field(examples=[["broker:1", "broker:2"]])
    same: int = Field(description="Number of configs with equal values in all columns")
    rows: list[DiffRow]
    unreachable: list[int] = Field(
        default_factory=list, description="If all brokers are compared: brokers that did not respond, without a column"
    )


async def columns_of(call: Call[NoBody]) -> list[Column]:
    """Return the requested columns. Raises BadInput."""
    words = OF.of(call)
    if words == [ALL_BROKERS]:
        brokers = (await call.cluster.describe_cluster(fenced=False)).brokers
        words = [f"broker:{each}" for each in sorted(broker.broker_id for broker in brokers)]
        if len(words) > COLUMNS_MAX:
            raise BadInput("of", f"there are {len(words)} brokers; give at most {COLUMNS_MAX}: of=broker:1,broker:2")
    elif not 2 <= len(words) <= COLUMNS_MAX:
        raise BadInput("of", f"give 2 to {COLUMNS_MAX} entries, such as broker:1,broker:2, or {ALL_BROKERS}")
    try:
        columns = [parse_column(word) for word in words]
    except BadColumn as error:
        raise BadInput("of", str(error)) from error
    if len({column.kind for column in columns}) > 1:
        raise BadInput("of", "compare brokers with brokers or topics with topics")
    if len(set(columns)) < len(columns):
        raise BadInput("of", "duplicate entry")
    return columns


async def describe_broker_configs(call: Call[NoBody], columns: list[Column]) -> list[DescribeConfigsResourceResult]:
    """Return the configs of some broker, for columns that show a topic without its own configs."""
    if not any(each.kind is ResourceType.TOPIC and each.layer is not Layer.ALL for each in columns):
        return []
    brokers = (await call.cluster.describe_cluster(fenced=False)).brokers
    if not brokers:
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "no broker available to read the defaults of topics")
    return await call.cluster.describe_configs(ResourceType.BROKER, str(min(each.broker_id for each in brokers)))


async def diff_configs(call: Call[NoBody]) -> ConfigDiff:
    """Compare configs and return the differences.

    `of` has the columns, comma-separated: broker:ID or topic:NAME, optionally with a layer. broker:1:static is broker 1
    without dynamic configs, topic:orders:broker the topic without its own configs, :default the defaults. `brokers`
    alone means all brokers.
    """
    everything, columns = ALL.of(call), await columns_of(call)

    wanted: list[tuple[ResourceType, str]] = list(dict.fromkeys((each.kind, each.name) for each in columns))
    may_lack = OF.of(call) == [ALL_BROKERS]
    results = dict(
        zip(wanted, await asyncio.gather(*(configs_of(call, *each, may_lack) for each in wanted)), strict=True)
    )
    there = {each: configs for each, configs in results.items() if configs is not None}
    unreachable = sorted(int(name) for (_, name), configs in results.items() if configs is None)
    columns = [each for each in columns if (each.kind, each.name) in there]
    rows = rows_of(columns, there, await describe_broker_configs(call, columns))
    return ConfigDiff(
        columns=[str(column) for column in columns],
        same=sum(not row.differs for row in rows),
        rows=[
            DiffRow(
                name=row.name,
                differs=row.differs,
                own=row.own,
                cells=[
                    None if cell is None else DiffCell(value=cell.value, source=cell.source, sensitive=cell.sensitive)
                    for cell in row.cells
                ],
            )
            for row in rows
            if everything or row.differs
        ],
        unreachable=unreachable,
    )


async def configs_of(
    call: Call[NoBody], kind: ResourceType, name: str, may_lack: bool
) -> list[DescribeConfigsResourceResult] | None:
    """Return the configs of one resource; None for a broker that does not respond and was not requested by id."""
    try:
        return await call.cluster.describe_configs(kind, name, timeout_ms=call.cluster.part_ms if may_lack else None)
    except Unreachable:
        if not may_lack:
            raise
        return None


OPERATIONS = [
    Operation.get(
        "/v1/configs/diff",
        "Compare configs",
        diff_configs,
        ConfigDiff,
        parameters=(OF, ALL),
    )
]
