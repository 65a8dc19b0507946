"""The plugin as somebody else's test suite has it: its fixtures, its options, what it leaves behind, what it costs."""

import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import yaml

pytest_plugins = ["pytester"]
DOCS = Path(__file__).parent.parent.parent / "docs"
PLUGIN = "kvorum.chaos.pytest_plugin"
RUN_SECONDS = 400
"""Several times what the longest run takes on a busy machine."""
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def plugged(pytester: pytest.Pytester, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a suite in a process of its own, with the plugin (which an installed Kvorum brings along)."""
    installed = any(each.value == PLUGIN for each in entry_points(group="pytest11"))
    plugin = [] if installed else ["-p", PLUGIN]
    command = [sys.executable, "-m", "pytest", *plugin, "-p", "no:cacheprovider", "--basetemp=folders", *arguments]
    return subprocess.run(command, cwd=pytester.path, capture_output=True, text=True, timeout=RUN_SECONDS)


def outcome(done: "subprocess.CompletedProcess[str]") -> str:
    return done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr


@pytest.mark.cluster
def test_the_documented_tests_pass(pytester: pytest.Pytester) -> None:
    blocks = BLOCK.findall((DOCS / "testing-your-application.md").read_text())
    assert len(blocks) == 2
    for number, block in enumerate(blocks):
        (pytester.path / f"test_documented_{number}.py").write_text(block)
    done = plugged(pytester, "-W", "error")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in outcome(done)
    assert not processes_below(pytester.path), "everything is gone when pytest is"


@pytest.mark.cluster
def test_clusters_of_a_run_are_shared_healed_told_of_and_ended(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nfilterwarnings = error\naddopts = --strict-markers\n")
    pytester.makepyfile(
        """
        import pytest

        def test_first_breaks_it(kvorum_session_cluster):
            cluster = kvorum_session_cluster
            assert cluster.nodes == ["node-1", "node-2"]
            assert cluster.lab.plan.cluster.node("node-1").properties["num.partitions"] == "7"
            cluster.kill("node-2")
            cluster.pause("node-1")
            assert cluster.is_touched

        def test_second_finds_it_whole(kvorum_session_cluster):
            assert not kvorum_session_cluster.is_touched
            kvorum_session_cluster.wait_until_healthy(timeout_seconds=20)
            with pytest.raises(Exception, match="links=True"):
                kvorum_session_cluster.isolate("node-1")
            kvorum_session_cluster.restart("node-2")

        @pytest.mark.kvorum(brokers=1, configs={"auto.create.topics.enable": False})
        def test_third_fails(kvorum_cluster):
            assert kvorum_cluster.nodes == ["node-1"]
            properties = kvorum_cluster.lab.plan.cluster.node("node-1").properties
            assert properties["auto.create.topics.enable"] == "false" and properties["num.partitions"] == "7"
            kvorum_cluster.kill("node-1")
            assert False, "on purpose"
        """
    )
    done = plugged(pytester, "--kvorum-brokers", "2", "--kvorum-config", "num.partitions=7", "-v")
    assert "2 passed, 1 failed" in outcome(done) or "1 failed, 2 passed" in outcome(done), done.stdout + done.stderr
    assert "on purpose" in done.stdout
    assert re.search(r"begin +kill -9 node-1", done.stdout), "the failure says what was done to its cluster"
    assert "logs: " in done.stdout
    assert not processes_below(pytester.path)


def test_options_that_make_no_sense_are_said_so(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(kvorum_session_cluster): pass")
    done = plugged(pytester, "--kvorum-config", "num.partitions")
    assert "it is KEY=VALUE" in done.stdout
    pytester.makepyfile(
        "import pytest\n@pytest.mark.kvorum(3)\ndef test_it(kvorum_cluster): pass\n"
        "@pytest.mark.kvorum(controllers=5, brokers=1)\ndef test_other(kvorum_cluster): pass\n"
        "@pytest.mark.kvorum(broker=3)\ndef test_typo(kvorum_cluster): pass\n"
        "@pytest.mark.kvorum(brokers='3')\ndef test_kind(kvorum_cluster): pass\n"
        "@pytest.mark.kvorum(configs={'min.isr': 2})\ndef test_config(kvorum_cluster): pass"
    )
    done = plugged(pytester)
    assert "takes its options by name" in done.stdout
    assert "more controllers than brokers" in done.stdout
    assert "a kvorum cluster has no option 'broker'; it has brokers, controllers, configs" in done.stdout
    assert "a kvorum cluster's brokers is a number, not '3'" in done.stdout
    assert "min.isr is not a config Kafka or Kvorum knows" in done.stdout


def test_a_suite_without_clusters_imports_nothing_of_kvorum_but_the_plugin(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_nothing_is_imported():
            found = [name for name in sys.modules if name.split(".")[0] in ("kvorum", "msgspec", "confluent_kafka")]
            assert set(found) <= {"kvorum", "kvorum.chaos", "kvorum.chaos.pytest_plugin"}
        """
    )
    done = plugged(pytester)
    assert "1 passed" in outcome(done), done.stdout


def test_a_fixture_of_that_name_may_be_somebody_elses(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "import pytest\n@pytest.fixture\ndef kvorum_cluster(): return 'mine'\n"
        "def test_it(kvorum_cluster): assert kvorum_cluster == 'theirs'"
    )
    done = plugged(pytester)
    assert "1 failed" in outcome(done), done.stdout


def test_help_and_markers_tell_of_it(pytester: pytest.Pytester) -> None:
    assert "--kvorum-brokers=N" in plugged(pytester, "--help").stdout
    assert "@pytest.mark.kvorum(brokers=3" in plugged(pytester, "--markers").stdout


def test_the_example_for_github_is_a_workflow() -> None:
    workflow = yaml.safe_load((DOCS / "examples" / "github-actions.yml").read_text())
    steps = workflow["jobs"]["tests"]["steps"]
    assert any("pytest --kvorum-brokers" in step.get("run", "") for step in steps)
    assert all(("uses" in step) != ("run" in step) for step in steps)


def processes_below(folder: Path) -> list[str]:
    """The command lines of processes that speak of a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line:
            found.append(line)
    return found
