"""The plugin as somebody else's test suite has it: its fixtures, its options, what it leaves behind, what it costs."""

import os
import re
import subprocess
import sys
import tempfile
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import yaml

pytest_plugins = ["pytester"]
DOCS = Path(__file__).parent.parent.parent.parent / "docs"
PLUGIN = "kvorum.chaos.pytest.plugin"
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


def test_the_documented_tests_pass(pytester: pytest.Pytester) -> None:
    blocks = BLOCK.findall((DOCS / "testing-your-application.md").read_text())
    assert len(blocks) == 3
    for number, block in enumerate(blocks):
        (pytester.path / f"test_documented_{number}.py").write_text(block)
    done = plugged(pytester, "-W", "error")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in outcome(done)
    assert not processes_below(pytester.path), "everything is gone when pytest is"


def test_clusters_of_a_run_are_shared_healed_reported_and_ended(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nfilterwarnings = error\naddopts = --strict-markers\n")
    pytester.makepyfile(
        """
        import pytest

        def test_first_breaks_it(kvorum_session_cluster):
            cluster = kvorum_session_cluster
            assert cluster.nodes == ["node-1", "node-2"]
            properties = cluster.lab.plan.cluster.node("node-1").properties
            assert properties["num.partitions"] == "7" and properties["group.initial.rebalance.delay.ms"] == "0"
            assert properties["offsets.topic.num.partitions"] == "5"
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


def test_topics_groups_and_the_asyncio_form(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nfilterwarnings = error\n")
    pytester.makepyfile(
        """
        import asyncio, time

        import pytest
        from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

        @pytest.mark.kvorum(brokers=2)
        def test_it(kvorum_cluster):
            cluster = kvorum_cluster
            assert cluster.bootstrap_servers == cluster.bootstrap.split(",") and len(cluster.bootstrap_servers) == 2
            cluster.create_topic("orders", partitions=3, configs={"retention.ms": 3_600_000})
            assert {cluster.leader_of("orders", partition) for partition in range(3)} <= set(cluster.nodes)
            assert cluster.isr_of("orders", 0) == cluster.nodes, "as many replicas as there are brokers"
            with pytest.raises(Exception, match="TOPIC_ALREADY_EXISTS"):
                cluster.create_topic("orders")
            for topic, partition, reason in (("nosuch", 0, "topics: orders"), ("orders", 3, "it has 3 partition")):
                with pytest.raises(Exception, match=f"{topic}-{partition} does not exist; {reason}"):
                    cluster.leader_of(topic, partition, timeout_seconds=3600)
            with pytest.raises(Exception, match="no partition is known"):
                cluster.wait_for_lag("invoices", "nosuch", timeout_seconds=0)
            assert "nosuch" not in cluster.lab.observer.topics(), "nothing creates it by asking"
            assert [topic.name for topic in cluster.admin.topics.list()] == ["orders"]
            assert cluster.admin is cluster.admin and len(cluster.admin.brokers.list()) == 2
            asyncio.run(asked_while_the_loop_goes_on(cluster))

        async def asked_while_the_loop_goes_on(cluster):
            async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
                for number in range(30):
                    await producer.send_and_wait("orders", b"x", partition=number % 3)
            with pytest.raises(Exception, match="is not at most 9 within .* s: it is 30 .orders-0: 10, orders-1: 10"):
                await cluster.aio.wait_for_lag("invoices", "orders", at_most=9, timeout_seconds=0)
            consumer = AIOKafkaConsumer(
                "orders", bootstrap_servers=cluster.bootstrap_servers, group_id="invoices",
                auto_offset_reset="earliest", enable_auto_commit=False,
            )
            async with consumer:
                waiting = asyncio.create_task(wait(cluster))
                for _ in range(30):
                    await consumer.getone()
                assert not waiting.done()
                await consumer.commit()
                assert await waiting == 0
            async with cluster.aio.pause("node-2") as fault:
                assert fault.kind == "pause" and cluster.is_touched
            assert not cluster.is_touched
            await cluster.aio.kill("node-2")
            assert "node-1" in await cluster.aio.isr_of("orders", 0)
            assert cluster.aio.nodes == cluster.nodes

        async def wait(cluster):
            return await cluster.aio.wait_for_lag("invoices", "orders")
        """
    )
    done = plugged(pytester)
    assert "1 passed" in outcome(done), done.stdout + done.stderr


def test_a_secure_cluster_has_settings_for_clients_and_refuses_others(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nfilterwarnings = error\n")
    pytester.makepyfile(
        """
        import pytest
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient
        from kvorum.client.sync import SyncCluster

        def test_it(kvorum_cluster):
            cluster = kvorum_cluster
            cluster.create_topic("orders")
            assert [topic.name for topic in cluster.admin.topics.list()] == ["orders"]
            given = cluster.client_settings
            assert given["bootstrap.servers"] == cluster.bootstrap
            assert "orders" in AdminClient({**given, "log_level": 0}).list_topics(timeout=30).topics
            java = dict(cluster.java_settings)
            assert java["security.protocol"] == "SASL_SSL" and java["sasl.mechanism"] == "SCRAM-SHA-512"
            with SyncCluster.connect(java.pop("bootstrap.servers"), **java) as connected:
                assert [topic.name for topic in connected.topics.list()] == ["orders"]
            wrong = [
                {"bootstrap.servers": cluster.bootstrap},
                {**given, "sasl.password": "wrong"},
            ]
            for settings in wrong:
                with pytest.raises(KafkaException):
                    AdminClient({**settings, "log_level": 0}).list_topics(timeout=3)
            assert given["sasl.password"] not in cluster.story() + repr(cluster)
            assert cluster.wait_for_lag("readers", "orders") == 0

        @pytest.mark.kvorum(secure=False)
        def test_a_marker_overrides_the_command_line(kvorum_cluster):
            assert list(kvorum_cluster.client_settings) == ["bootstrap.servers"] == list(kvorum_cluster.java_settings)
        """
    )
    done = plugged(pytester, "--kvorum-secure", "--kvorum-brokers", "1")
    assert "2 passed" in outcome(done), done.stdout + done.stderr


def test_a_report_names_partitions_whose_only_replica_was_killed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.kvorum(brokers=2)
        def test_it(kvorum_cluster):
            kvorum_cluster.create_topic("alone", replicas=1)
            kvorum_cluster.create_topic("safe", replicas=2)
            leader = kvorum_cluster.leader_of("alone", 0)
            kvorum_cluster.kill(leader)
            kvorum_cluster.restart(leader)
            assert False, leader
        """
    )
    done = plugged(pytester)
    assert re.search(r"alone-0 had its only replica on node-\d and has no leader without it", done.stdout), done.stdout
    assert "safe-0 had" not in done.stdout


EXPORTING = """
    import os

    import application
    import pytest

    def test_the_application_had_the_address_when_it_was_imported(kvorum_session_cluster):
        assert application.SERVERS == kvorum_session_cluster.bootstrap == os.environ["KAFKA_SERVERS"]
        kvorum_session_cluster.create_topic(os.environ.get("PYTEST_XDIST_WORKER", "alone"), replicas=1)

    def test_it_is_the_same_one(kvorum_session_cluster):
        assert application.SERVERS == kvorum_session_cluster.bootstrap and len(kvorum_session_cluster.nodes) == 1
"""


@pytest.mark.parametrize("imports", ["conftest", "workers"])
def test_the_address_is_exported_before_the_application_is_imported(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, imports: str
) -> None:
    for name in [each for each in os.environ if each.startswith("PYTEST_XDIST")]:
        monkeypatch.delenv(name)  # this test may itself run in a worker
    (pytester.path / "application.py").write_text('import os\nSERVERS = os.environ["KAFKA_SERVERS"]\n')
    pytester.makeconftest("import application" if imports == "conftest" else "")
    pytester.makepyfile(EXPORTING)
    workers = ["-p", "xdist", "-n", "2"] if imports == "workers" else []
    done = plugged(pytester, "--kvorum-export", "KAFKA_SERVERS", "--kvorum-brokers", "1", *workers)
    assert "2 passed" in outcome(done), done.stdout + done.stderr
    assert not processes_below(pytester.path)
    assert not [line for line in processes_below(Path(tempfile.gettempdir())) if "kvorum-pytest-" in line]


def test_export_needs_a_name_and_starts_nothing_where_no_test_runs(pytester: pytest.Pytester) -> None:
    assert "is not a valid name of an environment variable" in plugged(pytester, "--kvorum-export", "A=B").stderr
    assert "@pytest.mark.kvorum" in plugged(pytester, "--kvorum-export", "A", "--markers").stdout


def test_invalid_options_are_reported(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(kvorum_session_cluster): pass")
    done = plugged(pytester, "--kvorum-config", "num.partitions")
    assert "is not of the form KEY=VALUE" in done.stdout
    pytester.makepyfile(
        "import pytest\n@pytest.mark.kvorum(3)\ndef test_it(kvorum_cluster): pass\n"
        "@pytest.mark.kvorum(controllers=5, brokers=1)\ndef test_other(kvorum_cluster): pass\n"
        "@pytest.mark.kvorum(broker=3)\ndef test_typo(kvorum_cluster): pass\n"
        "@pytest.mark.kvorum(brokers='3')\ndef test_kind(kvorum_cluster): pass\n"
        "@pytest.mark.kvorum(configs={'min.isr': 2})\ndef test_config(kvorum_cluster): pass"
    )
    done = plugged(pytester)
    assert "takes keyword arguments only" in done.stdout
    assert "more controllers than brokers" in done.stdout
    assert "@pytest.mark.kvorum has no option 'broker'; its options: brokers, controllers, configs" in done.stdout
    assert "@pytest.mark.kvorum: brokers must be a number, not '3'" in done.stdout
    assert "min.isr is not a config of Kafka or Kvorum" in done.stdout


def test_a_suite_without_clusters_imports_nothing_of_kvorum_but_the_plugin(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_nothing_is_imported():
            found = [name for name in sys.modules if name.split(".")[0] in ("kvorum", "msgspec", "confluent_kafka")]
            assert set(found) <= {"kvorum", "kvorum.chaos", "kvorum.chaos.pytest", "kvorum.chaos.pytest.plugin"}
        """
    )
    done = plugged(pytester)
    assert "1 passed" in outcome(done), done.stdout


def test_a_fixture_of_that_name_may_belong_to_the_project(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "import pytest\n@pytest.fixture\ndef kvorum_cluster(): return 'mine'\n"
        "def test_it(kvorum_cluster): assert kvorum_cluster == 'theirs'"
    )
    done = plugged(pytester)
    assert "1 failed" in outcome(done), done.stdout


def test_help_and_markers_report_it(pytester: pytest.Pytester) -> None:
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
