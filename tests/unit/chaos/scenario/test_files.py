"""Scenario files: the shipped ones are sound, cells are merged, slips are told with their place."""

import re
from pathlib import Path

import pytest

from kvorum.chaos.scenario.files import ScenarioError, find, load, merge, shipped_scenarios
from kvorum.chaos.workload.plan import select_topics

WANTED = {
    *("n-minus-one", "matrix", "unclean-on", "unclean-off", "elr", "controller-failover", "controller-partition"),
    *("one-way-cuts", "slow-follower", "frozen-leader", "rolling-restart", "disk-full", "wiped-broker", "kill-all"),
    *("flapping-links", "false-refusal", "wiped-controller", "regressions", "random", "many-topics", "load"),
    *("packet-loss", "transactions", "exactly-once", "groups", "failing-directory", "lost-directory"),
}
WHOLE = """
name: mine
title: Mine
topics: {orders: {}}
workload: [{kind: send}]
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return path


def test_a_cell_of_a_file_is_found_by_the_files_path(tmp_path: Path) -> None:
    path = written(tmp_path, WHOLE + "matrix: [{name: a}, {name: b, title: B}]")
    assert [run.name for run in find(str(path))] == ["mine/a", "mine/b"]
    assert [run.title for run in find(f"{path}/b")] == ["B"]


def test_binary_data_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"name: \xff")
    with pytest.raises(ScenarioError, match="not UTF-8"):
        load(path)


@pytest.mark.parametrize(
    "step",
    [
        "{do: kill, at: 1, target: leader order-0}",
        "{do: kill, at: 1, target: [follower 2 orders-1]}",
        "{do: cut, at: 1, target: node-1, to: not leader orders-7}",
        "{do: wait, at: 1, until: {isr: {orders-1: 2}}}",
        "{do: wait, at: 1, until: {leader: {orders-0: not leader ordres-0}}}",
        "{do: elect-unclean, at: 1, partition: other-0}",
    ],
)
def test_a_partition_that_is_missing_is_reported_before_the_run(tmp_path: Path, step: str) -> None:
    with pytest.raises(ScenarioError, match=r"partition \S+ does not exist; topics: orders"):
        load(written(tmp_path, WHOLE + f"steps: [{step}]"))


def test_configs_of_nodes_may_be_numbers_and_truths(tmp_path: Path) -> None:
    own = "{log.retention.ms: 5, auto.create.topics.enable: no}"
    (run,) = load(written(tmp_path, WHOLE + f"cluster: {{node_configs: {{node-1: {own}}}}}"))
    assert run.cluster.node_configs == {"node-1": {"log.retention.ms": "5", "auto.create.topics.enable": "false"}}


def test_all_that_is_promised_is_shipped() -> None:
    assert set(shipped_scenarios()) >= WANTED


@pytest.mark.parametrize("name", shipped_scenarios())
def test_a_shipped_scenario_is_sound(name: str) -> None:
    for run in find(name):
        assert run.name.partition("/")[0] == name and run.title
        topics = {topic: each.partitions for topic, each in run.every_topic().items()}
        for plan in run.workload:
            assert select_topics(getattr(plan, "topics", ()), topics)
        for step in run.every_step():
            mentioned = [step.partition] if step.partition not in ("", "all", "journal") else []
            mentioned += re.findall(r"(?:leader|follower|followers|in-sync)(?: \d+)? (\S+-\d+)", str(step.target))
            if step.until is not None:
                mentioned += [*step.until.isr, *step.until.isr_at_most, *step.until.leader, *step.until.lies_in]
            assert all(each.rpartition("-")[0] in topics for each in mentioned), step
        assert all(topic.replication_factor <= run.cluster.brokers for topic in run.every_topic().values())
        assert find(run.name) == [run]


def test_cells_change_the_scenario_key_by_key(tmp_path: Path) -> None:
    text = (
        WHOLE
        + """
duration: 5
expect: {loss: none, acked_min: 7}
matrix:
  - {name: a, title: First, expect: {loss: explained}}
  - {name: b, topics: {orders: {configs: {min.insync.replicas: 2}}}}
"""
    )
    first, second = load(written(tmp_path, text))
    assert (first.name, first.title, first.expect.loss, first.expect.acked_min) == ("mine/a", "First", "explained", 7)
    assert (second.name, second.title, second.duration) == ("mine/b", "Mine", 5)
    assert second.every_topic()["orders"].configs == {"min.insync.replicas": "2"}
    assert merge({"a": [1], "b": {"c": 1}}, {"a": [2], "b": {"d": 2}}) == {"a": [2], "b": {"c": 1, "d": 2}}


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        (WHOLE + "durration: 3", r"durration: unknown key; did you mean duration\?"),
        (WHOLE + "duration: long", r"duration: .*valid number"),
        (WHOLE + "steps: [{at: 1, do: kil, target: all}]", r"steps.0.do: .*did you mean kill\?"),
        (WHOLE + "steps: [{at: 1, do: kill}]", r"steps.0: do: kill needs target"),
        (WHOLE + "steps: [{at: 1, do: window}]", r"steps.0: do: window needs for"),
        (WHOLE + "steps: [{at: 1, do: cut, target: node-1}]", r"steps.0: do: cut needs to"),
        (WHOLE + "steps: [{at: 3, do: heal}, {do: heal}, {at: 1, do: heal}]", r"times \(at\) must not decrease"),
        (WHOLE + "random: {kinds: [kill, plague]}", r"random.kinds.1: "),
        (WHOLE + "steps: [{at: 1, do: heal}]\nrandom: {kinds: [kill]}", "give steps or random"),
        ("name: x\ntitle: y\nworkload: []", "topics: Field required"),
        ("- 1", "a scenario must be a mapping"),
        ("a: [", ":1:5: not YAML: "),
        (WHOLE + "matrix: {a: 1}", "a list of cells, each with a name"),
    ],
)
def test_an_error_is_reported_with_its_position_and_a_suggestion(tmp_path: Path, text: str, reported: str) -> None:
    with pytest.raises(ScenarioError, match=reported) as raised:
        load(written(tmp_path, text))
    assert "mine.yaml" in str(raised.value)


def test_an_unknown_name_is_reported_with_a_similar_one(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="did you mean frozen-leader"):
        find("frozen-leder")
    with pytest.raises(ScenarioError, match="n-minus-one has no cell 'x'; its cells: rf3-min2"):
        find("n-minus-one/x")
    with pytest.raises(ScenarioError, match="No such file"):
        find(str(tmp_path / "no.yaml"))


def test_configs_may_be_numbers_and_booleans(tmp_path: Path) -> None:
    text = WHOLE.replace(
        "{orders: {}}", "{orders: {configs: {unclean.leader.election.enable: true, a: 2}}, s: {count: 2}}"
    )
    (found,) = load(written(tmp_path, text))
    assert found.every_topic()["orders"].configs == {"unclean.leader.election.enable": "true", "a": "2"}
    assert list(found.every_topic()) == ["orders", "s-1", "s-2"]


def test_a_step_is_repeated_the_given_number_of_times(tmp_path: Path) -> None:
    text = WHOLE + "steps: [{at: 1, do: cut, target: a, to: b, times: 3, every: 2}, {at: 2, do: heal}]"
    (found,) = load(written(tmp_path, text))
    assert [(step.do, step.at) for step in found.every_step()] == [("cut", 1), ("heal", 2), ("cut", 3), ("cut", 5)]
