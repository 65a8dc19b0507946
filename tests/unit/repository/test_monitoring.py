"""Dashboards, alerts and the scrape configuration: well formed, up to date, and asking for what is defined.

That a running cluster tells what they ask for is tests/cluster/test_dashboards.py.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvorum.runtime.cluster_file import load_cluster
from kvorum.runtime.listeners import metrics_listener
from kvorum.runtime.metric_definitions import DEFINITIONS
from tests.monitoring import (
    ALERTS,
    DASHBOARDS,
    IN_KUBERNETES,
    LABEL_VALUES,
    ROOT,
    SCRAPES,
    Expression,
    dashboard,
    expressions,
)
from tests.promql import asked_by

TARGET_LABELS = {"cluster", "instance", "job"}
"""Which Prometheus adds: the process's address, and what the scrape configuration says of it."""
OF_A_HISTOGRAM = ("_bucket", "_sum", "_count")
EXPRESSIONS = list(expressions())


def defined_labels(name: str) -> set[str]:
    """Return the labels that a metric has of itself; a name that is nobody's fails."""
    if name == "up" or name.startswith("process_"):
        return set()
    for ending in ("", *OF_A_HISTOGRAM):
        base = name.removesuffix(ending)
        if base in DEFINITIONS:
            known = DEFINITIONS[base]
            in_parts = {"le"} if ending == "_bucket" else {"quantile"} if known.in_quantiles and not ending else set()
            return set(known.labels) | in_parts
    raise AssertionError(f"{name} is not in metric_definitions")


def unknown_in(expression: Expression) -> list[str]:
    """Return the metrics and labels of an expression that nothing defines."""
    found, known = [], set(TARGET_LABELS)
    for name, labels in expression.requested.selectors:
        own = defined_labels(name)
        found += [f"{expression.where}: {name} has no label {label}" for label in labels - own - TARGET_LABELS]
        known |= own
    return found + [f"{expression.where}: {label} is no label" for label in expression.requested.groupings - known]


def test_expressions_use_existing_metrics_and_labels() -> None:
    assert len(EXPRESSIONS) > 100 and all(each.requested.selectors for each in EXPRESSIONS)
    assert [line for each in EXPRESSIONS for line in unknown_in(each)] == []


@pytest.mark.parametrize(
    "text",
    [
        'sum(rate(a_total{b="c}[5m]))',
        "sum(a",
        "sum(a))",
        "a{b}",
        'a{b="c" d="e"}',
        "rrate(a[5m])",
        '{b="c"}',
        "a[5 minutes]",
        "a % 5",
        "sum by (a b",
    ],
)
def test_invalid_expressions_are_not_parsed(text: str) -> None:
    with pytest.raises(ValueError):
        asked_by(text)


def test_metrics_labels_and_groupings_are_distinguished() -> None:
    requested = asked_by('sum by (le, x) (rate(a_bucket{b="c,{}",d!~"e"}[5m])) > 0.5 and on (x) max(f) < bool 1')
    assert requested.selectors == [("a_bucket", {"b", "d"}), ("f", set())]
    assert requested.groupings == {"le", "x"}


def test_the_dashboards_equal_the_generators_output() -> None:
    tool = ROOT / "tools" / "generate_grafana.py"
    found = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_is_one_that_grafana_imports(path: Path) -> None:
    found = dashboard(path)
    assert found["uid"] == path.stem
    assert "kvorum" in found["tags"]
    panels = found["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 5
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(place["x"] + dx, place["y"] + dy) for dx in range(place["w"]) for dy in range(place["h"])}
        assert max(x for x, _ in cells) < 24 and not cells & taken, f"{panel['title']} lies on another"
        taken |= cells
        references = [target["refId"] for target in panel.get("targets", [])]
        assert len(set(references)) == len(references) and (references or panel["type"] == "row")


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_uses_the_variables_it_has_and_no_others(path: Path) -> None:
    found = dashboard(path)
    variables = {variable["name"]: variable for variable in found["templating"]["list"]}
    text = path.read_text()
    for name, variable in variables.items():
        assert f"${name}" in text or f"${{{name}}}" in text, name
        assert variable["type"] == "datasource" or LABEL_VALUES.fullmatch(variable["query"]["query"])
    for expression in EXPRESSIONS:
        if expression.where.startswith(f"{path.name}:"):
            for part in expression.text.replace("$__rate_interval", "").split("$")[1:]:
                assert part.partition('"')[0] in variables, expression


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def test_every_alert_has_a_unique_name_and_a_severity() -> None:
    alerts = [rule["alert"] for rule in rules()]
    assert len(set(alerts)) == len(alerts) > 15
    for rule in rules():
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["summary"]
        known = set(TARGET_LABELS) | asked_by(rule["expr"]).groupings
        for name, _ in asked_by(rule["expr"]).selectors:
            known |= defined_labels(name)
        for part in rule["annotations"]["summary"].split("$labels.")[1:]:
            assert part.split()[0].rstrip("}") in known, rule


def test_every_alert_has_a_runbook() -> None:
    text = (ROOT / "docs" / "monitoring.md").read_text()
    missing = [rule["alert"] for rule in rules() if f"**{rule['alert']}**" not in text]
    assert not missing


def test_every_metric_is_described_for_people() -> None:
    text = (ROOT / "docs" / "monitoring.md").read_text()
    assert [name for name in DEFINITIONS if f"`{name}`" not in text] == []


def test_the_example_scrapes_the_processes_of_the_three_nodes() -> None:
    jobs = {job["job_name"]: job for job in yaml.safe_load(SCRAPES.read_text())["scrape_configs"]}
    spec = load_cluster(str(ROOT / "configs" / "three-nodes.yaml"), "/dir")
    for role in ("broker", "controller"):
        (static,) = jobs[f"kvorum-{role}"]["static_configs"]
        found = [metrics_listener(node.settings, role) for node in spec.nodes]
        assert static["targets"] == [f"{each.host}:{each.port}" for each in found if each is not None]
        assert static["labels"] == {"cluster": spec.name}
    for path in (SCRAPES, IN_KUBERNETES):
        assert yaml.safe_load(path.read_text())["rule_files"] == [ALERTS.name]


def test_kubernetes_dependencies_are_in_a_separate_file() -> None:
    """Debian's Prometheus is built without it, and refuses the whole of a file that asks for it."""
    jobs = {path: yaml.safe_load(path.read_text())["scrape_configs"] for path in (SCRAPES, IN_KUBERNETES)}
    assert all(job.keys() == {"job_name", "static_configs"} for job in jobs[SCRAPES])
    (only,) = jobs[IN_KUBERNETES]
    assert only["kubernetes_sd_configs"] == [{"role": "pod"}]
