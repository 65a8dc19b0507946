"""The configurations that ship with Kvorum load, fit together, and say what the code says."""

import importlib.util
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvorum.cli.main import main
from kvorum.runtime.cluster_file import load_cluster
from kvorum.runtime.config_defs import BROKER
from kvorum.runtime.config_files import load_node
from kvorum.runtime.listeners import admin_listeners, listeners, metrics_listener

ROOT = Path(__file__).parent.parent.parent.parent
CLUSTERS = sorted((ROOT / "configs").glob("*.yaml"))
EPHEMERAL_PORT_MIN = 32_768  # the kernel hands out ports from here: a fixed one above could be taken


@pytest.mark.parametrize("path", CLUSTERS, ids=lambda path: path.stem)
def test_a_cluster_file_loads_without_a_warning(path: Path) -> None:
    spec = load_cluster(str(path), "/dir")
    assert spec.warnings == ()
    assert spec.name == path.stem


@pytest.mark.parametrize("path", CLUSTERS, ids=lambda path: path.stem)
def test_no_two_processes_of_a_cluster_share_a_port(path: Path) -> None:
    ports: list[tuple[str, int]] = []
    for node in load_cluster(str(path), "/dir").nodes:
        own = [endpoint.port for endpoint in listeners(node.settings)]
        own += [endpoint.port for endpoint in admin_listeners(node.settings)]
        for role in node.settings.list("process.roles"):
            metrics = metrics_listener(node.settings, role)
            assert metrics is not None
            own.append(metrics.port)
        ports += [(node.host, port) for port in own]
    assert len(ports) == len(set(ports))
    assert max(port for _, port in ports) < EPHEMERAL_PORT_MIN


def test_the_clusters_are_as_large_as_their_names_say() -> None:
    roles = {
        path.stem: [tuple(node.settings.list("process.roles")) for node in load_cluster(str(path), "/dir").nodes]
        for path in CLUSTERS
    }
    combined, controller, broker = ("broker", "controller"), ("controller",), ("broker",)
    assert roles["single"] == [combined]
    assert roles["three-nodes"] == roles["secure-three-nodes"] == roles["three-machines"] == [combined] * 3
    assert roles["three-controllers-five-brokers"] == [controller] * 3 + [broker] * 5


@pytest.mark.parametrize("path", CLUSTERS, ids=lambda path: path.stem)
def test_a_cluster_file_is_valid_once_the_commands_in_its_comments_have_run(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`kvorum configs validate` reads the certificates as well."""
    monkeypatch.chdir(tmp_path)
    text = path.read_text()
    for node in re.findall(r"^  - name: (\S+)", text, re.MULTILINE) if "kvorum certs node $node" in text else ():
        text = text.replace("#   for node", f"#   kvorum certs node {node}\n#   for node")
    for command in re.findall(r"^#   (kvorum certs (?!rotate)[^$\n]*)$", text, re.MULTILINE):
        done = CliRunner().invoke(main, command.split()[1:])
        assert done.exit_code == 0, done.output
    done = CliRunner().invoke(main, ["configs", "validate", str(path)])
    assert (done.exit_code, done.stderr) == (0, ""), done.output


def test_node_properties_is_what_its_tool_writes() -> None:
    path = ROOT / "tools" / "generate_node_properties.py"
    spec = importlib.util.spec_from_file_location("generate_node_properties", path)
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert (ROOT / "configs" / "node.properties").read_text() == tool.render(), f"run {path}"


def test_node_properties_names_every_config_once() -> None:
    text = (ROOT / "configs" / "node.properties").read_text()
    named = re.findall(r"^#?([a-z][a-z0-9.]*)=", text, re.MULTILINE)
    assert sorted(named) == sorted(name for name, definition in BROKER.items() if not definition.internal)


def test_node_properties_starts_a_node_as_it_is_and_with_every_default_written_out(tmp_path: Path) -> None:
    path = ROOT / "configs" / "node.properties"
    plain = load_node(str(path), environment={})
    assert plain.warnings == ()
    lines = path.read_text().splitlines()
    unset = {f"#{name}=" for name, definition in BROKER.items() if definition.default is None}
    written = [line.removeprefix("#") if re.match(r"#[a-z]", line) and line not in unset else line for line in lines]
    # The old name of node.id has a default that no node could have.
    everything = tmp_path / "node.properties"
    everything.write_text("\n".join(line for line in written if not line.startswith("broker.id=")))
    loaded = load_node(str(everything), environment={}, check=False)
    assert loaded.warnings == ()
    assert len(loaded.settings.explicit()) > 250
    assert all(loaded.settings.raw(key) == plain.settings.raw(key) for key in loaded.settings.explicit())
