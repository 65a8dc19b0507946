"""The verbs on a cluster of real processes: each fault shows where it should, nowhere else, and ends."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kvorum.chaos import history
from kvorum.chaos.faults.lab import Lab
from kvorum.chaos.faults.link_faults import NotThisNetwork
from kvorum.chaos.faults.namespace_holder import NotPermitted
from kvorum.chaos.faults.shape import LabShape
from kvorum.chaos.faults.target_cluster import LabError
from kvorum.chaos.faults.topology import BROKER
from kvorum.runtime.disk import OsDisk
from kvorum.runtime.process import is_stopped
from kvorum.storage import durable_length
from tests.cluster.clients import eventually, read_all

FAST = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.wait.max.ms": "500",
    "min.insync.replicas": "1",
}
IN_FIRST_BLOCK = 60
"""A byte of the journal with sound blocks behind it: damage, and no torn tail."""
QUIET = {"log_level": 0, "socket.timeout.ms": 3000}

Events = list[history.Fault]


@pytest.fixture(scope="module")
def running(toxiproxy_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lab, Events]]:
    """One cluster for all tests of this file."""
    events: Events = []
    shape = LabShape(groups=("clients", "clients-b"), configs=FAST)
    with Lab.create(str(tmp_path_factory.mktemp("lab")), shape, on_fault=events.append, seed=7) as lab:
        lab.wait_until_healthy()
        yield lab, events


@pytest.fixture
def lab(running: tuple[Lab, Events]) -> Iterator[Lab]:
    """The cluster, well before and after."""
    found, events = running
    events.clear()
    yield found
    found.recover()
    assert not found.register.in_force()
    begun = [event.id for event in events if event.phase == "begin"]
    assert sorted(begun) == sorted(event.id for event in events if event.phase == "end")


@pytest.fixture
def events(running: tuple[Lab, Events]) -> Events:
    return running[1]


def topic(lab: Lab, name: str, partitions: int = 1, replicas: int = 3) -> str:
    admin = AdminClient({"bootstrap.servers": lab.direct_bootstrap, **QUIET})
    admin.create_topics([NewTopic(name, partitions, replicas)])[name].result(30)
    lab.wait_until_healthy()
    return name


def send(bootstrap: str, name: str, values: list[bytes], seconds: float = 10, acks: str = "all") -> list[str | None]:
    """Send to partition 0; return each record's error."""
    errors: list[str | None] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "message.timeout.ms": int(seconds * 1000), "acks": acks, **QUIET}
    )
    for value in values:
        producer.produce(name, value, partition=0, on_delivery=lambda e, _: errors.append(e.name() if e else None))
    producer.flush(seconds + 5)
    return errors


def read(bootstrap: str, name: str) -> list[bytes]:
    """Return what is in partition 0."""
    return [message.value() for message in read_all(bootstrap, name, 1)[0]]


def others(lab: Lab, name: str) -> list[str]:
    return [each for each in lab.nodes if each != name]


def test_the_cluster_is_described_as_the_history_has_it(lab: Lab) -> None:
    shape = lab.history_shape()
    assert shape.nodes["node-2"] == history.NodeShape(id=2, roles=["broker", "controller"])
    assert lab.name_of(lab.id_of("node-3")) == "node-3"
    assert lab.active_controller() in lab.nodes
    with pytest.raises(LabError, match="no responding broker has a partition 'absent-0'"):
        lab.isr_of("absent", 0)


def test_one_group_of_clients_is_cut_off_and_the_other_is_not(lab: Lab) -> None:
    name = topic(lab, "groups")
    with lab.links.cut("clients-b", "brokers"):
        assert send(lab.bootstrap, name, [b"a"]) == [None]
        assert send(lab.access_of("clients-b").bootstrap, name, [b"b"], 2) == ["_MSG_TIMED_OUT"]
    assert send(lab.access_of("clients-b").bootstrap, name, [b"c"]) == [None]
    assert read(lab.access_of("clients-b").bootstrap, name) == [b"a", b"c"]


def test_lost_responses_are_requests_that_were_carried_out(lab: Lab) -> None:
    name = topic(lab, "responses")
    leader = lab.leader_of(name, 0)
    producer = Producer({"bootstrap.servers": lab.bootstrap, "message.timeout.ms": 3000, "retries": 0, **QUIET})
    errors: list[str | None] = []

    def noted(error: object, _: object) -> None:
        errors.append(None if error is None else error.name())  # type: ignore[attr-defined]

    producer.produce(name, b"warm", partition=0, on_delivery=noted)
    producer.flush(10)
    with lab.links.between("lose_responses", "clients", leader):
        producer.produce(name, b"ambiguous", partition=0, on_delivery=noted)
        producer.flush(10)
    assert errors == [None, "_MSG_TIMED_OUT"]
    assert read(lab.access_of("clients-b").bootstrap, name) == [b"warm", b"ambiguous"]


def test_a_cut_between_two_brokers_touches_neither_controllers_nor_clients(lab: Lab) -> None:
    name = topic(lab, "follower")
    leader = lab.leader_of(name, 0)
    follower, third = others(lab, leader)
    with lab.links.cut(f"{follower}/broker", f"{leader}/broker"):
        # A follower that has all there is stays in sync though it says nothing: one more record tells.
        assert send(lab.bootstrap, name, [b"x"], acks="1") == [None]
        eventually(lambda: lab.isr_of(name, 0) == sorted([leader, third]), "the ISR shrinks")
        assert send(lab.bootstrap, name, [b"x"]) == [None]
        assert lab.leader_of(name, 0) == leader
        ailments = lab.observer.ailments()
        assert ailments and not any("fenced" in each or "controller" in each for each in ailments), ailments
        with pytest.raises(LabError, match=rf"not within 0.2 s: {name}-0 has ISR"):
            lab.wait_until_healthy(0.2)


def test_one_way_is_one_way(lab: Lab) -> None:
    name = topic(lab, "one-way")
    leader = lab.leader_of(name, 0)
    follower, third = others(lab, leader)
    with lab.links.cut(f"{leader}/broker", f"{follower}/broker", "freeze", one_way=True):
        assert send(lab.bootstrap, name, [b"x"], acks="1") == [None]
        eventually(lambda: lab.isr_of(name, 0) == sorted([leader, third]), "what the leader answers does not come")
    lab.wait_until_healthy()
    api_toxics = [state.toxics for state in lab.links.links.api.proxies().values()]  # type: ignore[attr-defined]
    assert not any(api_toxics), "nothing is left on the links"


def test_an_isolated_controller_loses_its_office_and_its_broker_keeps_its_partitions(lab: Lab) -> None:
    name = topic(lab, "office")
    active, leader = lab.active_controller(), lab.leader_of(name, 0)
    with lab.links.isolate(f"{active}/controller"):
        eventually(lambda: lab.observer.active_controller() not in (None, lab.id_of(active)), "another is elected")
        assert lab.leader_of(name, 0) == leader
    lab.wait_until_healthy()


def test_an_isolated_broker_is_fenced_and_comes_back(lab: Lab, events: Events) -> None:
    name = topic(lab, "isolated")
    leader = lab.leader_of(name, 0)
    fault = lab.links.isolate(leader)
    eventually(lambda: lab.leader_of(name, 0) != leader, "another leads")
    assert send(lab.bootstrap, name, [b"x"]) == [None]
    lab.links.heal()
    lab.wait_until_healthy()
    assert [(event.fault, event.phase, event.targets, event.id) for event in events] == [
        ("black_hole", "begin", [leader], fault.id),
        ("black_hole", "end", [leader], fault.id),
    ]


def test_slow_links_take_their_time(lab: Lab) -> None:
    name = topic(lab, "slow")
    assert send(lab.bootstrap, name, [b"x"]) == [None]
    with lab.links.between("latency", "clients", "brokers", attributes={"latency": 200}):
        started = time.monotonic()
        assert send(lab.bootstrap, name, [b"y"]) == [None]
        assert time.monotonic() - started > 0.8, "ApiVersions and Produce at the least, 0.4 s each"


@pytest.mark.parametrize("kind", ["drop_syn", "packet_loss"])
def test_faults_that_proxies_cannot_make_are_refused(lab: Lab, kind: str) -> None:
    with pytest.raises(NotThisNetwork, match="needs network namespaces"):
        lab.links.between(kind, "clients", "brokers")
    with pytest.raises(ValueError, match="never connect to each other"):
        lab.links.cut("clients", "controllers")


def test_kill_and_start(lab: Lab, events: Events) -> None:
    name = topic(lab, "kill")
    leader = lab.leader_of(name, 0)
    lab.processes.kill(leader, story=f"kill -9 {leader}, which led {name}-0")
    assert not lab.cluster.processes(leader)
    eventually(lambda: lab.leader_of(name, 0) != leader, "another leads")
    assert lab.processes.start(leader) == {leader: "ready"}
    assert [(each.fault, each.phase, each.story) for each in events] == [
        ("kill", phase, f"kill -9 {leader}, which led {name}-0") for phase in ("begin", "end")
    ]


def test_a_killed_role_is_back_by_itself(lab: Lab) -> None:
    before = lab.cluster.processes("node-2")
    lab.processes.kill("node-2/broker")
    eventually(lambda: "broker" in lab.cluster.processes("node-2"), "the supervisor starts it again")
    after = lab.cluster.processes("node-2")
    assert after["broker"] != before["broker"] and after["controller"] == before["controller"]


def test_pause_and_resume_one_role_and_a_paused_node_can_be_killed(lab: Lab) -> None:
    processes = lab.cluster.processes("node-3")
    with lab.processes.pause("node-3/broker"):
        eventually(lambda: is_stopped(processes["broker"]), "it is stopped")
        assert not is_stopped(processes["controller"])
    eventually(lambda: not is_stopped(processes["broker"]), "it goes on")
    lab.processes.pause("node-3")
    lab.processes.kill("node-3")
    assert not lab.register.in_force("pause")


def test_terminate_and_restart_are_in_order(lab: Lab, events: Events) -> None:
    with lab.processes.terminate("node-1"):
        assert not lab.cluster.processes("node-1")
    lab.processes.restart("node-1")
    assert [event.fault for event in events] == ["terminate", "terminate", "restart", "restart"]


def test_all_nodes_are_killed_at_once_and_restart_without_loss(lab: Lab) -> None:
    name = topic(lab, "all")
    assert send(lab.bootstrap, name, [b"a", b"b"]) == [None, None]
    lab.processes.kill_all()
    assert not any(lab.cluster.processes(node) for node in lab.nodes)
    lab.recover()
    assert read(lab.bootstrap, name) == [b"a", b"b"]


def test_a_lost_tail_is_exactly_the_unsynced_data(lab: Lab, events: Events) -> None:
    name = topic(lab, "tail", replicas=1)
    leader = lab.leader_of(name, 0)
    assert set(send(lab.bootstrap, name, [b"%d" % number for number in range(100)])) == {None}
    (folder,) = lab.disks.directories(leader, BROKER)
    synced = durable_length.read(OsDisk(), f"{folder}/{name}-0")
    assert synced is not None and synced.recovery_point < 100, "nothing asked for a sync"
    lab.disks.lose_tail([leader])
    lab.recover()
    assert read(lab.bootstrap, name) == [b"%d" % number for number in range(synced.recovery_point)]
    assert events[0].lossy and f"{name}-0, above offset {synced.recovery_point}" in events[-1].story
    # With its one replica it would stay without a leader for ever if that node were wiped later.
    admin = AdminClient({"bootstrap.servers": lab.direct_bootstrap, **QUIET})
    admin.delete_topics([name])[name].result(30)


def test_a_lost_tail_of_one_replica_of_three_loses_nothing(lab: Lab) -> None:
    name = topic(lab, "safe-tail")
    assert set(send(lab.bootstrap, name, [b"%d" % number for number in range(100)])) == {None}
    lab.disks.lose_tail([lab.leader_of(name, 0)])
    lab.recover()
    assert read(lab.bootstrap, name) == [b"%d" % number for number in range(100)]


def test_a_wiped_node_restarts_and_fetches_all_records(lab: Lab, events: Events) -> None:
    name = topic(lab, "wiped")
    assert send(lab.bootstrap, name, [b"a"]) == [None]
    (node,) = [each for each in lab.nodes if each not in (lab.leader_of(name, 0), lab.active_controller())][:1]
    lab.disks.wipe(node)
    (folder,) = lab.disks.directories(node, BROKER)
    assert sorted(path.name for path in Path(folder).iterdir()) == ["meta.properties"]
    lab.recover()
    assert (Path(folder) / f"{name}-0").is_dir()
    assert [(each.fault, each.lossy) for each in events] == [("wipe", True), ("wipe", True)]


def test_a_flipped_bit_is_found_when_the_replica_recovers(lab: Lab, events: Events) -> None:
    name = topic(lab, "bits")
    assert set(send(lab.bootstrap, name, [b"%d" % number for number in range(50)])) == {None}
    leader = lab.leader_of(name, 0)
    follower = others(lab, leader)[0]
    lab.processes.kill(follower)
    (flipped,) = lab.disks.flip_bits(follower, f"{name}-0")
    damaged = Path(flipped.path).read_bytes()
    lab.recover()
    (folder,) = lab.disks.directories(leader, BROKER)
    whole = (Path(folder) / f"{name}-0" / Path(flipped.path).name).read_bytes()
    assert damaged != whole == Path(flipped.path).read_bytes()
    flips = [event for event in events if event.fault == "flip_bits"]
    assert len(flips) == 2 and flips[1].lossy and f"byte {flipped.position}" in flips[1].story


def test_a_controller_whose_journal_is_damaged_refuses_to_run_until_it_is_wiped(lab: Lab) -> None:
    node = next(each for each in lab.nodes if each != lab.active_controller())
    lab.processes.kill(node)
    lab.disks.flip_bits(node, "journal", position=IN_FIRST_BLOCK)
    assert lab.processes.start(node) == {node: "died"}
    with lab.disks.wipe(f"{node}/controller"):
        (folder,) = lab.disks.directories(node, BROKER)
        assert Path(folder, "__cluster_metadata-0").is_dir(), "the broker's disk is left alone"


def test_a_clock_that_jumps_stamps_the_log_and_nothing_else_happens(lab: Lab) -> None:
    name = topic(lab, "clock")
    leader = lab.leader_of(name, 0)
    with lab.clocks.jump(leader, offset_ms=7 * 24 * 3_600_000):
        assert lab.clocks.nodes[leader].get() > 0
        assert send(lab.bootstrap, name, [b"a"]) == [None]
    assert lab.clocks.nodes[leader].get() == 0
    assert lab.leader_of(name, 0) == leader


def test_disk_full_and_read_only_end_a_node_and_it_restarts(toxiproxy_program: str, tmp_path: Path) -> None:
    """Brokers apart, one on 3 MiB: what it cannot write ends it, since it has but one log directory."""
    shape = LabShape(brokers=2, controllers=1, configs={**FAST, "log.segment.bytes": "1048576"})
    try:
        lab = Lab.create(str(tmp_path / "lab"), shape, network="plain", small_disks={"node-2": 3 << 20})
    except NotPermitted as error:
        pytest.skip(f"mount namespaces: {error}")
    with lab:
        with pytest.raises(NotThisNetwork, match="has no proxies"):
            lab.links.cut("node-1", "node-2")
        for number, fault in enumerate((lab.disks.fill, lab.disks.read_only)):
            name = topic(lab, f"disk-{number}", replicas=2)
            with fault("node-2"):
                producer = Producer({"bootstrap.servers": lab.bootstrap, **QUIET})
                for _ in range(600):
                    producer.produce(name, bytes(4000), partition=0)
                producer.flush(10)
                eventually(lambda: "broker" not in lab.cluster.processes("node-2"), "its broker ends")
                assert lab.isr_of(name, 0) == ["node-1"]
            admin = AdminClient({"bootstrap.servers": lab.bootstrap, **QUIET})
            admin.delete_topics([name])[name].result(30)
            lab.recover()


def test_in_namespaces_packets_are_lost_and_the_cluster_continues(tmp_path: Path) -> None:
    try:
        lab = Lab.create(str(tmp_path / "lab"), LabShape(configs=FAST), network="namespaces")
    except NotPermitted as error:
        pytest.skip(f"network namespaces: {error}")
    with lab:
        name = topic_inside(lab, "inside")
        leader = lab.leader_of(name, 0)
        with lab.links.between("packet_loss", leader, "brokers", share=0.2):
            assert lab.namespaces is not None
            assert lab.namespaces.call("clients", lambda: send(lab.bootstrap, name, [b"a"])) == [None]
        with lab.links.between("drop_syn", "clients", "brokers"):
            assert lab.namespaces.call("clients", lambda: send(lab.bootstrap, name, [b"b"], 2)) == ["_MSG_TIMED_OUT"]
        with lab.links.isolate(leader):
            eventually(lambda: lab.leader_of(name, 0) != leader, "another leads")
        with pytest.raises(NotThisNetwork, match="needs proxies"):
            lab.links.between("latency", "clients", "brokers", attributes={"latency": 10})
        with pytest.raises(NotThisNetwork, match="share its namespace"):
            lab.links.cut("node-1/broker", "node-2")
        lab.recover()
        assert lab.namespaces.call("clients", lambda: read(lab.bootstrap, name)) == [b"a"]


def topic_inside(lab: Lab, name: str) -> str:
    assert lab.namespaces is not None
    return lab.namespaces.call("clients", lambda: topic(lab, name))
