"""Classes and constructors of dashboards and panels."""

from dataclasses import dataclass, field
from typing import Final

from grafana.expressions import CLUSTER, Target, series, total


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel, or a row's heading. `red_from`, `red_below`: thresholds of values that need attention."""

    title: str
    targets: tuple[Target, ...] = ()
    kind: str = "timeseries"
    unit: str = "short"
    description: str = ""
    red_from: float | None = None
    red_below: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """One file. `variables`: name and label_values() query."""

    uid: str
    title: str
    description: str
    panels: tuple[Panel, ...] = field(default=())
    variables: tuple[tuple[str, str], ...] = ()


CLUSTER_VARIABLE: Final = ("cluster", "label_values(kvorum_build_info, cluster)")
INSTANCE_VARIABLE: Final = ("instance", f"label_values(kvorum_build_info{{{CLUSTER}}}, instance)")
TOPIC_VARIABLE: Final = ("topic", f"label_values(kafka_topic_partitions{{{CLUSTER}}}, topic)")
GROUP_VARIABLE: Final = ("consumergroup", f"label_values(kafka_consumergroup_members{{{CLUSTER}}}, consumergroup)")


def stat(
    title: str,
    expression: str,
    description: str = "",
    *,
    red_from: float | None = None,
    red_below: float | None = None,
) -> Panel:
    """Return a single number."""
    targets = ((expression, ""),)
    return Panel(
        title=title, targets=targets, kind="stat", description=description, red_from=red_from, red_below=red_below
    )


def row(title: str) -> Panel:
    """Return a heading."""
    return Panel(title=title, kind="row")


def curves(title: str, *targets: Target, unit: str = "short", description: str = "") -> Panel:
    """Return curves over time."""
    return Panel(title=title, targets=targets, unit=unit, description=description)


def table(title: str, expression: str, *, legend: str = "", unit: str = "short", description: str = "") -> Panel:
    """Return a table of current values."""
    return Panel(title=title, targets=((expression, legend),), kind="table", unit=unit, description=description)


ACTIVE_CONTROLLERS: Final = stat(
    "Active controllers",
    total(series("kafka_controller_kafkacontroller_activecontrollercount", CLUSTER)),
    "Always one, except during an election.",
    red_below=1,
)
