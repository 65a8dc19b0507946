"""What configs/deploy holds is well formed and names commands, options, configs, ports and exit codes there are."""

import configparser
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvorum.broker.metadata.lifecycle import CONTROLLED_SHUTDOWN_TIMEOUT_MS
from kvorum.cli.local.folders import UNIT_STOP_SECONDS
from kvorum.cli.output import Exit as CommandLine
from kvorum.cluster.local.formatting import log_directories
from kvorum.cluster.process.exits import Exit, restart_helps
from kvorum.runtime.config_files import NOT_CONFIGS, load_node
from kvorum.runtime.listeners import broker_listeners, metrics_listener
from tests.commands import calls, complaint, fenced
from tests.monitoring import IN_KUBERNETES, ROOT

DEPLOY = ROOT / "configs" / "deploy"
UNITS = sorted((DEPLOY / "systemd").iterdir())
YAMLS = sorted(DEPLOY.rglob("*.yaml"))
PROPERTIES = sorted(DEPLOY.rglob("*.properties"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHUTDOWN_SECONDS = CONTROLLED_SHUTDOWN_TIMEOUT_MS // 1000


def unit(path: Path) -> configparser.ConfigParser:
    """Read a unit; a key that is there several times has its last value."""
    found = configparser.ConfigParser(strict=False, delimiters=("=",), interpolation=None)
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read_string(path.read_text())
    return found


def documents(path: Path) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


def ids(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", UNITS, ids=ids)
def test_a_unit_runs_existing_commands_with_a_stop_timeout(path: Path) -> None:
    found = unit(path)
    service = found["Service"]
    for key in ("ExecStartPre", "ExecStart"):
        (words,) = calls(service[key])
        assert complaint(words) is None
        assert service[key].startswith("/opt/kvorum/bin/kvorum ")
    assert int(service["TimeoutStopSec"]) > SHUTDOWN_SECONDS
    assert service["KillMode"] == "mixed", "the supervisor ends its processes in order"
    assert found["Unit"]["RequiresMountsFor"] == service["ReadWritePaths"]


@pytest.mark.parametrize("path", UNITS, ids=ids)
def test_a_node_is_not_started_again_where_that_cannot_help(path: Path) -> None:
    status = unit(path)["Service"]["RestartPreventExitStatus"]
    lasting = {code for code in Exit if not restart_helps(code)} - {Exit.DONE}
    assert set(map(int, status.split())) == lasting | {CommandLine.USAGE}


@pytest.mark.parametrize("path", [*UNITS, *sorted((DEPLOY / "docker").iterdir()), *YAMLS, *PAGES], ids=ids)
def test_commands_and_options_that_are_written_down_exist(path: Path) -> None:
    text = fenced(path) if path.suffix == ".md" else re.sub(r"^# ?", "", path.read_text(), flags=re.MULTILINE)
    lines = [line for line in text.splitlines() if "kvorum " in line]
    found = [(words, complaint(words)) for line in lines for words in calls(line.replace("'", '"'))]
    assert [(words, why) for words, why in found if why is not None] == []


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("kvorum nodde a.properties", "kvorum has no command nodde"),
        ("kvorum quorum status --bootstrp x", "kvorum quorum status has no option --bootstrp"),
        ("sudo -u kvorum /opt/kvorum/bin/kvorum format --random", "kvorum format has no option --random"),
        ("a; kvorum topics creat", "kvorum topics has no command creat"),
        ("kvorum kafka-features --bootstrap-server h:1 upgrad", "kvorum kafka-features has no command upgrad"),
        ("kvorum kafka-features --bootstrap h:1 upgrade", "kvorum kafka-features has no option --bootstrap"),
    ],
)
def test_errors_in_a_line_are_found(line: str, why: str) -> None:
    assert [complaint(words) for words in calls(line)] == [why]


@pytest.mark.parametrize("path", PROPERTIES, ids=ids)
def test_a_nodes_file_is_in_order_and_its_ports_are_those_that_are_opened(path: Path) -> None:
    loaded = load_node(str(path), environment={})
    assert loaded.warnings == ()
    (listener,) = broker_listeners(loaded.settings)
    metrics = [metrics_listener(loaded.settings, role) for role in ("broker", "controller")]
    ports = [listener.port, *(each.port for each in metrics if each is not None)]
    if path.parent.name == "docker":
        text = (path.parent / "Dockerfile").read_text()
        assert f"EXPOSE {' '.join(map(str, ports))}\n" in text
        (service,) = documents(path.parent / "compose.yaml")[0]["services"].values()
        assert service["ports"] == [f"127.0.0.1:{port}:{port}" for port in ports]
        assert service["stop_grace_period"] == "330s"
    else:
        assert [each["containerPort"] for each in container()["ports"]] == ports


def container() -> dict[str, Any]:
    """Return the container of the StatefulSet."""
    (found,) = documents(DEPLOY / "kubernetes" / "statefulset.yaml")
    (only,) = found["spec"]["template"]["spec"]["containers"]
    assert isinstance(only, dict)
    return only


def test_a_clusters_unit_waits_for_the_nodes_before_it_kills_them() -> None:
    service = unit(DEPLOY / "systemd" / "kvorum-cluster.service")["Service"]
    assert SHUTDOWN_SECONDS < UNIT_STOP_SECONDS < int(service["TimeoutStopSec"])
    assert "--stop-timeout" not in service["ExecStart"], "the default it is"


def test_the_stateful_set_fits_together() -> None:
    (found,) = documents(DEPLOY / "kubernetes" / "statefulset.yaml")
    spec, pod, only = found["spec"], found["spec"]["template"]["spec"], container()
    assert spec["replicas"] == 1
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    assert pod["terminationGracePeriodSeconds"] > SHUTDOWN_SECONDS
    assert pod["enableServiceLinks"] is False
    volumes = {each["name"] for each in (*pod["volumes"], *(v["metadata"] for v in spec["volumeClaimTemplates"]))}
    assert {mount["name"] for mount in only["volumeMounts"]} == volumes
    assert all(each["name"] in NOT_CONFIGS for each in only["env"])
    ports = {each["name"] for each in only["ports"]}
    for probe in ("livenessProbe", "readinessProbe"):
        assert only[probe]["httpGet"]["port"] in ports
        assert only[probe]["httpGet"]["path"] in ("/health/live", "/health/ready")
    services = documents(DEPLOY / "kubernetes" / "service.yaml")
    assert spec["serviceName"] in {each["metadata"]["name"] for each in services}
    for service in services:
        assert service["spec"]["selector"] == spec["selector"]["matchLabels"]
        assert {each["targetPort"] for each in service["spec"]["ports"]} <= ports
    settings = load_node(str(DEPLOY / "kubernetes" / "node.properties"), environment={}).settings
    assert settings.list("advertised.listeners") == ["PLAINTEXT://kvorum.kvorum.svc:9092"]
    assert settings.list("log.dirs")[0].startswith("/var/lib/kvorum/")


def discovered(container_port: dict[str, Any]) -> dict[str, str]:
    """Return what Prometheus finds out about the pod and one of its ports, in words of its Kubernetes discovery."""
    (found,) = documents(DEPLOY / "kubernetes" / "statefulset.yaml")
    labels = found["spec"]["template"]["metadata"]["labels"]
    return {
        "__meta_kubernetes_namespace": documents(DEPLOY / "kubernetes" / "kustomization.yaml")[0]["namespace"],
        "__meta_kubernetes_pod_name": f"{found['metadata']['name']}-0",
        "__meta_kubernetes_pod_container_name": container()["name"],
        "__meta_kubernetes_pod_container_port_name": container_port["name"],
        **{f"__meta_kubernetes_pod_label_{re.sub('[^a-z]', '_', key)}": value for key, value in labels.items()},
    }


def relabelled(labels: dict[str, str], steps: list[dict[str, Any]]) -> dict[str, str] | None:
    """Return the labels of a target as Prometheus's relabel_configs make them, None if it is not scraped."""
    for step in steps:
        value = ";".join(labels.get(each, "") for each in step["source_labels"])
        match = re.fullmatch(step.get("regex", "(.*)"), value)
        if step.get("action", "replace") == "keep":
            if match is None:
                return None
        elif match is not None:
            labels[step["target_label"]] = match.expand(step.get("replacement", "$1").replace("$", "\\"))
    return {key: value for key, value in labels.items() if not key.startswith("__")}


def test_targets_in_kubernetes_have_the_labels_that_strimzis_dashboards_choose_by() -> None:
    (job,) = yaml.safe_load(IN_KUBERNETES.read_text())["scrape_configs"]
    found = {port["name"]: relabelled(discovered(port), job["relabel_configs"]) for port in container()["ports"]}
    pod = {
        "namespace": "kvorum",
        "kubernetes_pod_name": "kvorum-kafka-0",
        "container": "kafka",
        "strimzi_io_cluster": "kvorum",
        "strimzi_io_name": "kvorum-kafka",
        "cluster": "kvorum",
    }
    assert found == {"kafka": None, "metrics": pod, "metrics-quorum": pod}


def test_pods_and_claims_have_the_names_in_strimzis_alerts() -> None:
    """A pod of another name counts as missing for ever, and a claim of another name is never found full."""
    (found,) = documents(DEPLOY / "kubernetes" / "statefulset.yaml")
    pod = f"{found['metadata']['name']}-0"
    assert re.fullmatch(r".+-kafka-[0-9]+", pod)
    (claim,) = found["spec"]["volumeClaimTemplates"]
    assert re.fullmatch(r"data(-[0-9]+)?-(.+)-kafka-[0-9]+", f"{claim['metadata']['name']}-{pod}")
    assert container()["name"] == "kafka"


def test_kustomize_is_reported_files_that_exist() -> None:
    folder = DEPLOY / "kubernetes"
    (found,) = documents(folder / "kustomization.yaml")
    named = {*found["resources"], *(name for each in found["configMapGenerator"] for name in each["files"])}
    assert named | {"kustomization.yaml"} == {path.name for path in folder.iterdir()}
    (pod,) = documents(folder / "statefulset.yaml")
    maps = {each["configMap"]["name"] for each in pod["spec"]["template"]["spec"]["volumes"] if "configMap" in each}
    assert maps == {each["name"] for each in found["configMapGenerator"]}
    kinds = {each["kind"] for path in folder.glob("*.yaml") for each in documents(path)}
    assert kinds == {"Kustomization", "Namespace", "NetworkPolicy", "Service", "StatefulSet"}


STAND_IN = """#!/bin/sh
echo "$@" >> "$CALLS"
test "$*" != "format --random-id" || echo drawn-"$(wc -l < "$CALLS")"
"""


def test_a_container_formats_at_its_first_start_only_under_the_id_it_drew(tmp_path: Path) -> None:
    """With a `kvorum` that only notes its arguments. An empty directory at a later start may be a missing mount."""
    stand_in = tmp_path / "bin" / "kvorum"
    stand_in.parent.mkdir()
    stand_in.write_text(STAND_IN)
    stand_in.chmod(0o755)
    reported = tmp_path / "calls"
    environment = {"PATH": f"{stand_in.parent}:{os.environ['PATH']}", "CALLS": str(reported)}

    def run(**more: str) -> list[str]:
        reported.write_text("")
        command = ["sh", str(DEPLOY / "docker" / "run-node"), "node.properties", str(tmp_path)]
        subprocess.run(command, check=True, env=environment | more)
        return reported.read_text().splitlines()

    first = "format node.properties --cluster-id drawn-1 --ignore-formatted"
    assert run() == ["format --random-id", first, "node node.properties"]
    assert run() == ["node node.properties"]
    (tmp_path / "cluster-id").rename(tmp_path / "cluster-id.new")  # as after a first start that was interrupted
    assert run() == [first, "node node.properties"]
    (tmp_path / "cluster-id").unlink()
    assert run(KVORUM_CLUSTER_ID="mine")[0] == "format node.properties --cluster-id mine --ignore-formatted"


def test_the_exit_codes_are_explained() -> None:
    rows = re.findall(
        r"^\| (\d+) \| ([A-Z_]+) \|", (ROOT / "docs" / "operate" / "start-stop.md").read_text(), re.MULTILINE
    )
    assert {(int(code), name) for code, name in rows} == {(int(each), each.name) for each in Exit}


@pytest.mark.parametrize("path", PROPERTIES, ids=ids)
def test_all_files_of_a_node_are_below_the_mount(path: Path) -> None:
    """A controller's directory lies beside metadata.log.dir: of a mount itself it would be outside."""
    settings = load_node(str(path), environment={}).settings
    assert all(folder.startswith("/var/lib/kvorum/") for folder in log_directories(settings))
