"""What configs/grafana and configs/prometheus ask of a cluster, for the tests that hold it to what is told."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.promql import Asked, asked_by

ROOT = Path(__file__).parent.parent
DASHBOARDS = sorted((ROOT / "configs" / "grafana").glob("*.json"))
ALERTS = ROOT / "configs" / "prometheus" / "alerts.yml"
SCRAPES = ROOT / "configs" / "prometheus" / "prometheus.yml"
IN_KUBERNETES = ROOT / "configs" / "prometheus" / "kubernetes.yml"
PROMETHEUS_OWN = {"up"}
"""Told by Prometheus itself, of each process that it asks."""
LABEL_VALUES = re.compile(r"label_values\((?P<selector>.+), (?P<label>\w+)\)")


class Expression(NamedTuple):
    """An expression, and where it stands."""

    where: str
    text: str

    @property
    def requested(self) -> Asked:
        return asked_by(self.text)


def dashboard(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text())
    assert isinstance(found, dict)
    return found


def expressions() -> Iterator[Expression]:
    """Go over all of all dashboards and alerts, variables' queries and annotations too."""
    for path in DASHBOARDS:
        found = dashboard(path)
        for panel in found["panels"]:
            for target in panel.get("targets", []):
                yield Expression(f"{path.name}: {panel['title']}", target["expr"])
        for annotation in found["annotations"]["list"]:
            if "expr" in annotation:
                yield Expression(f"{path.name}: {annotation['name']}", annotation["expr"])
        for variable in found["templating"]["list"]:
            if variable["type"] == "query":
                match = LABEL_VALUES.fullmatch(variable["query"]["query"])
                assert match is not None, variable
                yield Expression(
                    f"{path.name}: ${variable['name']}", f"sum by ({match['label']}) ({match['selector']})"
                )
    for group in yaml.safe_load(ALERTS.read_text())["groups"]:
        for rule in group["rules"]:
            yield Expression(f"alerts.yml: {rule['alert']}", rule["expr"])


def metrics_asked_for() -> set[str]:
    """Return the names of all metrics that a process of ours is to tell."""
    return set().union(*(each.requested.metrics for each in expressions())) - PROMETHEUS_OWN
