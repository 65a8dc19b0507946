"""Differences of configs: between brokers, between topics, or to the values without a config layer.

    broker:1           effective configs of broker 1        broker:1:static     without dynamic configs
    topic:orders       effective configs of the topic       topic:orders:broker without the topic's own configs
    broker:1:default   the release's default              topic:orders:default

Each is a column; all columns of a table are of one kind. A value is compared by its meaning (two notations of one
duration are equal), and secrets only by their source, since their values are never returned. Sans-IO.

Source of layers and their order: Kafka's ConfigHelper, DynamicBrokerConfig.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from kvorum.client.config_sources import Source, source_name
from kvorum.client.wire.cluster_client import ResourceType
from kvorum.protocol.messages.describe_configs import DescribeConfigsResourceResult
from kvorum.runtime import config_defs
from kvorum.runtime.config_types import InvalidValue, Value

BROKER_ID_MAX: Final = 2**31 - 1
NAME_CHARS_MAX: Final = 249
OWN: Final = frozenset(
    {
        *("node.id", "broker.id", "broker.rack", "log.dir", "log.dirs", "metadata.log.dir", "process.roles"),
        *("listeners", "advertised.listeners", "metrics.listener", "admin.listeners"),
        *("kvorum.controller.metrics.listener", "kvorum.chaos.listener", "kvorum.controller.chaos.listener"),
        "kvorum.peer.addresses",
    }
)
"""Configs that differ per broker in any healthy cluster."""


class Layer(StrEnum):
    """Down to which layer a column looks."""

    ALL = ""
    STATIC = "static"
    BROKER = "broker"
    DEFAULT = "default"


LAYERS: Final[Mapping[ResourceType, Mapping[Layer, frozenset[Source]]]] = {
    ResourceType.BROKER: {
        Layer.ALL: frozenset(),
        Layer.STATIC: frozenset({Source.DYNAMIC_BROKER_CONFIG, Source.DYNAMIC_DEFAULT_BROKER_CONFIG}),
        Layer.DEFAULT: frozenset(
            {Source.DYNAMIC_BROKER_CONFIG, Source.DYNAMIC_DEFAULT_BROKER_CONFIG, Source.STATIC_BROKER_CONFIG}
        ),
    },
    ResourceType.TOPIC: {
        Layer.ALL: frozenset(),
        Layer.BROKER: frozenset({Source.DYNAMIC_TOPIC_CONFIG}),
        Layer.DEFAULT: frozenset(
            {
                *(Source.DYNAMIC_TOPIC_CONFIG, Source.DYNAMIC_BROKER_CONFIG),
                *(Source.DYNAMIC_DEFAULT_BROKER_CONFIG, Source.STATIC_BROKER_CONFIG),
            }
        ),
    },
}
"""{kind: {layer: the sources that do not count in it}}."""


class BadColumn(ValueError):
    """A column name that cannot be compared; the message has a suggestion."""


class Column(NamedTuple):
    """A broker's or topic's configs, up to a layer."""

    kind: ResourceType
    name: str
    layer: Layer

    def __str__(self) -> str:
        """Return the column in the format of the request."""
        return ":".join(filter(None, (self.kind.name.lower(), self.name, self.layer.value)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A config's value in one column, and where it comes from. The value of a secret is None."""

    value: str | None
    source: str
    sensitive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One config; None where a column has no such config, or it is not set down to that layer."""

    name: str
    cells: Sequence[Cell | None]
    differs: bool
    own: bool


def parse_column(text: str) -> Column:
    """Read KIND:NAME or KIND:NAME:LAYER. Raises BadColumn."""
    kind_name, _, rest = text.partition(":")
    name, _, layer_name = rest.partition(":")
    kinds = {kind.name.lower(): kind for kind in LAYERS}
    if kind_name not in kinds:
        raise BadColumn(f"{text!r} is neither broker:ID nor topic:NAME")
    kind = kinds[kind_name]
    if not 0 < len(name) <= NAME_CHARS_MAX:
        raise BadColumn(f"{text!r} has no {kind_name}")
    if kind is ResourceType.BROKER and not (
        name.isascii() and name.isdecimal() and len(name) <= len(str(BROKER_ID_MAX)) and int(name) <= BROKER_ID_MAX
    ):
        raise BadColumn(f"{name!r} is not the id of a broker")
    known = {layer.value: layer for layer in LAYERS[kind]}
    if layer_name not in known:
        raise BadColumn(
            f"{layer_name!r} is not a config layer of a {kind_name}; use one of {', '.join(filter(None, known))}"
        )
    return Column(kind, str(int(name)) if kind is ResourceType.BROKER else name, known[layer_name])


Described: TypeAlias = Sequence[DescribeConfigsResourceResult]


def cell_of(config: DescribeConfigsResourceResult, left_out: frozenset[Source]) -> Cell | None:
    """Return a config's value without some layers; None if no remaining layer has one.

    Of the synonyms only the one with the same name counts: a retention in hours is a different config.
    """
    if config.config_source not in left_out:
        value = None if config.is_sensitive else config.value
        return Cell(value=value, source=source_name(config.config_source), sensitive=config.is_sensitive)
    for synonym in config.synonyms:
        if synonym.name == config.name and synonym.source not in left_out:
            value = None if config.is_sensitive else synonym.value
            return Cell(value=value, source=source_name(synonym.source), sensitive=config.is_sensitive)
    return None


def inherit_cell(name: str, broker: Mapping[str, DescribeConfigsResourceResult], left_out: frozenset[Source]) -> Cell:
    """Return the value of a topic without own configs: the first synonym that a broker has, else the default.

    A broker lists the synonyms of a topic's config from their main name on only: each is looked up here.
    """
    definition = config_defs.TOPIC.get(name)
    for synonym in () if definition is None else definition.synonyms:
        cell = cell_of(broker[synonym], left_out) if synonym in broker else None
        if cell is None or cell.value is None:
            continue
        if synonym.endswith((".hours", ".minutes")):
            return replace(cell, value=str(config_defs.milliseconds_of(synonym, int(cell.value))))
        return cell
    default = None if definition is None else definition.default
    return Cell(value=default, source=Source.DEFAULT_CONFIG.name, sensitive=False)


def cells_of(column: Column, described: Described, broker: Described) -> dict[str, Cell]:
    """Return {config: its value in this column}; `broker` is what some broker has, which topics inherit from."""
    left_out = LAYERS[column.kind][column.layer]
    of_broker = {each.name: each for each in broker}
    found: dict[str, Cell] = {}
    for each in described:
        if left_out and column.kind is ResourceType.TOPIC:
            found[each.name] = inherit_cell(each.name, of_broker, left_out)
            continue
        cell = cell_of(each, left_out)
        if cell is not None:
            found[each.name] = cell
    return found


def parse_value(kind: ResourceType, name: str, text: str | None) -> Value:
    """Return a config's parsed value; the text if it is invalid or the config is unknown."""
    definition = config_defs.TOPIC.get(name) if kind is ResourceType.TOPIC else config_defs.broker_def(name)
    try:
        return text if text is None or definition is None else definition.parse(text)
    except InvalidValue:
        return text


def comparison_key(kind: ResourceType, name: str, cell: Cell | None) -> object:
    """Return what two cells have to have in common to be the same."""
    if cell is None:
        return None
    return (cell.source,) if cell.sensitive else (parse_value(kind, name, cell.value),)


def rows_of(
    columns: Sequence[Column], described: Mapping[tuple[ResourceType, str], Described], broker: Described = ()
) -> list[Row]:
    """Arrange the configs of the columns in rows by name. The columns are of one kind."""
    kind = columns[0].kind
    found = [cells_of(column, described[column.kind, column.name], broker) for column in columns]
    rows = []
    for name in sorted(set().union(*found)):
        cells = [each.get(name) for each in found]
        first, *rest = (comparison_key(kind, name, cell) for cell in cells)
        differs = any(each != first for each in rest)
        rows.append(Row(name=name, cells=cells, differs=differs, own=kind is ResourceType.BROKER and name in OWN))
    return rows
