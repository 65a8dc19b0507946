"""Write configs/grafana/*.json, the dashboards, from the tables in tools/grafana.

Run: python tools/generate_grafana.py [--check]. The tables say what is shown; here is what Grafana wants around it:
identifiers, places, variables, annotations. tests/cluster/test_dashboards.py holds every name in an expression to what
the processes of a cluster really tell.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Final

from grafana import DASHBOARDS
from grafana.panels import Dashboard, Panel

FOLDER = Path(__file__).parent.parent / "configs" / "grafana"
SCHEMA_VERSION: Final = 39
"""Grafana 11's; later ones read it, too."""
COLUMNS: Final = 24
SIZES: Final = {"stat": (4, 4), "timeseries": (12, 8), "table": (12, 9), "state-timeline": (24, 6)}
"""Width and height of each kind of panel."""
DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
GREEN, RED = "green", "red"

ANNOTATIONS: Final = (
    ("process started", "changes(process_start_time_seconds{%s}[1m]) > 0", "{{instance}} was started", "blue"),
    (
        "controller",
        "changes(kafka_controller_kafkacontroller_newactivecontrollerscount{%s}[1m]) > 0",
        "{{instance}} saw a new active controller",
        "purple",
    ),
    ("fenced", "sum(kafka_controller_kafkacontroller_fencedbrokercount{%s}) > 0", "brokers are fenced", "orange"),
    (
        "unclean election",
        "increase(kafka_controller_controllerstats_uncleanleaderelections_total{%s}[1m]) > 0",
        "a leader was elected uncleanly",
        RED,
    ),
)
"""Name, expression, text, colour. On every dashboard: what happened to the cluster while a curve moved."""
CHAOS_TAG: Final = "kvorum-chaos"


def render(dashboard: Dashboard) -> dict[str, Any]:
    """Return what Grafana imports."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.description + " Written by tools/generate_grafana.py; not to be edited.",
        "tags": ["kvorum", "kafka"],
        "editable": True,
        "graphTooltip": 1,
        "schemaVersion": SCHEMA_VERSION,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "",
        "annotations": {"list": [*map(annotation, ANNOTATIONS), chaos_annotation()]},
        "templating": {"list": [datasource_variable(), *map(variable, dashboard.variables)]},
        "links": [
            {"type": "dashboards", "tags": ["kvorum"], "title": "Kvorum", "asDropdown": True, "includeVars": True}
        ],
        "panels": laid_out(dashboard.panels),
    }


def annotation(row: tuple[str, str, str, str]) -> dict[str, Any]:
    """Return an annotation that Prometheus knows of."""
    name, expression, text, colour = row
    return {
        "name": name,
        "enable": True,
        "datasource": DATASOURCE,
        "expr": expression % 'cluster=~"$cluster"',
        "step": "30s",
        "titleFormat": name,
        "textFormat": text,
        "iconColor": colour,
    }


def chaos_annotation() -> dict[str, Any]:
    """Return what shows the faults of a chaos run, once docs/examples/chaos_annotations.py has brought them."""
    return {
        "name": "chaos faults",
        "enable": True,
        "datasource": {"type": "grafana", "uid": "-- Grafana --"},
        "target": {"type": "tags", "tags": [CHAOS_TAG], "limit": 500, "matchAny": False},
        "iconColor": "yellow",
    }


def datasource_variable() -> dict[str, Any]:
    """Return the choice of a Prometheus."""
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "hide": 0}


def variable(row: tuple[str, str]) -> dict[str, Any]:
    """Return a choice of label values, all of them at first."""
    name, query = row
    return {
        "name": name,
        "label": name,
        "type": "query",
        "datasource": DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        # A label that is not there is the empty text, and fits: the dashboards do without the label `cluster`.
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def laid_out(panels: tuple[Panel, ...]) -> list[dict[str, Any]]:
    """Place panels from left to right, a new line where the next does not fit."""
    found: list[dict[str, Any]] = []
    x = y = line_height = 0
    for number, panel in enumerate(panels, 1):
        width, height = (COLUMNS, 1) if panel.kind == "row" else SIZES[panel.kind]
        if x + width > COLUMNS:
            x, y, line_height = 0, y + line_height, 0
        found.append({"id": number, "gridPos": {"x": x, "y": y, "w": width, "h": height}, **body(panel)})
        x, line_height = x + width, max(line_height, height)
    return found


def body(panel: Panel) -> dict[str, Any]:
    """Return a panel but for its place."""
    if panel.kind == "row":
        return {"type": "row", "title": panel.title, "collapsed": False, "panels": []}
    is_table = panel.kind == "table"
    targets = [
        {
            "refId": chr(ord("A") + index),
            "datasource": DATASOURCE,
            "expr": expression,
            "legendFormat": legend,
            **({"format": "table", "instant": True} if is_table else {}),
            **({"instant": True} if panel.kind == "stat" else {}),
        }
        for index, (expression, legend) in enumerate(panel.targets)
    ]
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": DATASOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": defaults(panel), "overrides": []},
        "options": options(panel),
    }


def defaults(panel: Panel) -> dict[str, Any]:
    """Return unit, colours and limits."""
    steps: list[dict[str, Any]] = [{"color": GREEN, "value": None}]
    if panel.red_from is not None:
        steps.append({"color": RED, "value": panel.red_from})
    if panel.red_below is not None:
        steps = [{"color": RED, "value": None}, {"color": GREEN, "value": panel.red_below}]
    found: dict[str, Any] = {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}}
    if panel.kind == "timeseries":
        found["min"] = 0
        found["custom"] = {"lineWidth": 1, "fillOpacity": 10, "showPoints": "never"}
    return found


def options(panel: Panel) -> dict[str, Any]:
    """Return how a kind of panel is drawn."""
    if panel.kind == "stat":
        return {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "background", "graphMode": "none"}
    if panel.kind == "timeseries":
        return {
            "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"]},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    return {}


def main() -> int:
    """Write the files, or say which are not what they should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file would change")
    check = parser.parse_args().check
    stale = [name for name, text in files().items() if not same(FOLDER / name, text)]
    for name in stale:
        if check:
            print(f"configs/grafana/{name} is old: run python tools/generate_grafana.py", file=sys.stderr)
        else:
            (FOLDER / name).write_text(files()[name])
    return 1 if check and stale else 0


def same(path: Path, text: str) -> bool:
    """Tell whether a file says this already."""
    return path.exists() and path.read_text() == text


def files() -> dict[str, str]:
    """Return {file name: text} of all dashboards."""
    return {
        f"{dashboard.uid}.json": json.dumps(render(dashboard), indent=2, sort_keys=True) + "\n"
        for dashboard in DASHBOARDS
    }


if __name__ == "__main__":
    sys.exit(main())
