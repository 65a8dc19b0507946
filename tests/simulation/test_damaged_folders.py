"""Folders that were damaged while their broker was down: a table of file x damage x stop.

Three brokers in the simulator, replication factor 3, min.insync.replicas 2. One broker's folder is damaged while it is
stopped; then it comes back. The simulator's invariants hold throughout: no replica leads without what was acknowledged.
At the end every replica is held against what was acknowledged, and everything is read back.

    one   that broker alone was stopped, the others went on
    all   all three were stopped, and the damaged one comes back first
"""

import gc
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import PurePosixPath

import msgspec
import pytest

from kvorum.protocol.topic_partition import TopicPartition
from kvorum.storage.checkpoints import read_meta_properties
from sim.cluster import TOPIC, SimCluster
from sim.cluster_faults import Faults
from sim.convergence import settle
from sim.draw import draw_plan
from sim.machine import SimProcess, State
from sim.plan import Plan
from sim.run import quiet

NAME = TopicPartition(TOPIC, 0)
DAMAGED = 2
SECONDS = 5.0
CLEAN, CRASH = "clean", "crash"


def plan(seed: int = 1) -> Plan:
    """A quiet cluster: one controller apart, segments of a second."""
    base = draw_plan(seed, SECONDS)
    load = msgspec.structs.replace(
        base.options.load, producers=[(-1, True), (-1, False)], consumers=1, every_s=0.05, burst_s=0.0, in_flight=2
    )
    options = msgspec.structs.replace(
        base.options,
        **{"controllers": 1, "brokers": 3, "combined": False, "partitions": 1, "replication_factor": 3, "min_isr": 2},
        **{"elr": True, "unclean": False, "fast_fencing": True, "flush": False, "log_dirs": 1, "roll_ms": 1000},
        **{"session_timeout_ms": 2000, "heartbeat_interval_ms": 300, "lag_time_ms": 2000, "fault_kinds": []},
        **{"coordination": None, "racks": 0, "load": load, "request_cost_ms": 0.0, "probes_quotas": False},
        **{"reads_files": True, "delay_max_s": 0.002},
    )
    return Plan(seed=seed, seconds=SECONDS, options=options, faults=[])


def broker(cluster: SimCluster, node_id: int) -> SimProcess:
    return cluster.machines[node_id].processes["broker"]


def brokers(cluster: SimCluster) -> list[SimProcess]:
    return [process for process in cluster.processes if process.role == "broker"]


def stop(cluster: SimCluster, processes: list[SimProcess], how: str) -> None:
    for process in processes:
        if how == CLEAN:
            process.terminate()
        else:
            cluster.invariants.incarnations.record_kill(process.machine.node_id)
            process.kill()
    assert cluster.run_until(lambda: all(each.state is State.DOWN for each in processes), 30)


class Folder:
    """The folder of the damaged broker's replica, and what people do to its files."""

    def __init__(self, process: SimProcess) -> None:
        self.disk = process.disk
        self.directory = process.log_dirs[0]
        self.path = f"{self.directory}/{NAME}"

    def files(self, suffix: str) -> list[str]:
        return [f"{self.path}/{name}" for name in self.disk.listdir(self.path) if name.endswith(suffix)]

    def replace(self, path: str, change: Callable[[bytes], bytes | None]) -> None:
        data = self.disk.read(path)
        changed = change(data)
        assert changed != data, f"{path} is not damaged by that"
        self.disk.remove(path)
        if changed is not None:
            self.disk.write_atomic(path, changed)


def flip_last(data: bytes) -> bytes:
    return data[:-5] + bytes([data[-5] ^ 1]) + data[-4:]


KINDS: dict[str, Callable[[bytes], bytes | None]] = {
    "short": lambda data: data[:-10],
    "flipped": flip_last,
    "empty": lambda data: b"",
    "garbage": lambda data: b"\x00garbage\xff" * (len(data) // 9 + 1),
    "missing": lambda data: None,
}


def on_segment(place: int) -> Callable[[Folder, str], None]:
    return lambda folder, kind: folder.replace(folder.files(".log")[place], KINDS[kind])


def on_last(suffix: str) -> Callable[[Folder, str], None]:
    return lambda folder, kind: folder.replace(folder.files(suffix)[-1], KINDS[kind])


def on_all(suffix: str) -> Callable[[Folder, str], None]:
    def damage(folder: Folder, kind: str) -> None:
        for path in folder.files(suffix):
            if folder.disk.size(path):
                folder.replace(path, KINDS[kind])

    return damage


def on_directory_file(name: str) -> Callable[[Folder, str], None]:
    return lambda folder, kind: folder.replace(f"{folder.directory}/{name}", KINDS[kind])


def without_folder(folder: Folder, kind: str) -> None:
    folder.disk.remove_tree(folder.path)


def emptied_folder(folder: Folder, kind: str) -> None:
    for name in folder.disk.listdir(folder.path):
        folder.disk.remove(f"{folder.path}/{name}")


def extra_folder(folder: Folder, kind: str) -> None:
    copy = f"{folder.directory}/{TOPIC}-0{NAME.partition}"
    folder.disk.mkdir(copy)
    for path in folder.files(""):
        folder.disk.write_atomic(f"{copy}/{PurePosixPath(path).name}", folder.disk.read(path))


ALL_KINDS = tuple(KINDS)
FILES: dict[str, tuple[Callable[[Folder, str], None], tuple[str, ...]]] = {
    "active segment": (on_last(".log"), ALL_KINDS),
    "middle segment": (on_segment(1), ("missing", "empty", "short")),
    "first segment": (on_segment(0), ("missing", "empty", "short")),
    "index": (on_last(".index"), ("missing", "garbage")),
    "indexes": (on_all(".index"), ALL_KINDS),
    "time indexes": (on_all(".timeindex"), ALL_KINDS),
    "producer snapshots": (on_all(".snapshot"), ALL_KINDS),
    "leader epochs": (on_last("leader-epoch-checkpoint"), ("missing", "empty", "garbage")),
    "partition.metadata": (on_last("partition.metadata"), ("missing", "empty", "garbage")),
    "durable-length": (on_last("durable-length"), ("missing", "garbage")),
    "folder": (without_folder, ("missing",)),
    "files": (emptied_folder, ("missing",)),
    "extra folder": (extra_folder, ("copy",)),
    "recovery points": (on_directory_file("recovery-point-offset-checkpoint"), ("missing", "garbage")),
    "high watermarks": (on_directory_file("replication-offset-checkpoint"), ("missing", "garbage")),
    "log start offsets": (on_directory_file("log-start-offset-checkpoint"), ("missing", "garbage")),
    "record of the shutdown": (on_directory_file("clean-shutdown-logs"), ("missing", "garbage")),
    "clean-shutdown mark": (on_directory_file(".kafka_cleanshutdown"), ("missing", "garbage")),
}
ROWS = [(name, kind) for name, (_, kinds) in FILES.items() for kind in kinds]
ONLY_CLEAN = ("log start offsets", "record of the shutdown", "clean-shutdown mark")
UNSEEN_AFTER_CRASH = {("first segment", "missing")}
"""After a crash a log may begin later than it did because of retention."""
FAST = {
    *(("active segment", "short", CLEAN, "all"), ("active segment", "flipped", CLEAN, "one")),
    *(("active segment", "missing", CRASH, "one"), ("middle segment", "missing", CLEAN, "one")),
    *(("middle segment", "short", CRASH, "one"), ("first segment", "missing", CLEAN, "all")),
    *(("indexes", "garbage", CLEAN, "one"), ("producer snapshots", "missing", CLEAN, "one")),
    *(("leader epochs", "garbage", CRASH, "one"), ("partition.metadata", "garbage", CLEAN, "all")),
    *(("folder", "missing", CLEAN, "all"), ("folder", "missing", CRASH, "one"), ("files", "missing", CLEAN, "all")),
    *(("recovery points", "garbage", CRASH, "one"), ("extra folder", "copy", CLEAN, "all")),
}
"""The rows of the default run."""
CASES = [
    pytest.param(*row, marks=() if row in FAST else pytest.mark.long, id="-".join(row).replace(" ", "-"))
    for scope in ("one", "all")
    for how in (CLEAN, CRASH)
    for name, kind in ROWS
    if not (how == CRASH and (name in ONLY_CLEAN or (name, kind) in UNSEEN_AFTER_CRASH or scope == "all"))
    for row in [(name, kind, how, scope)]
]


@pytest.fixture
def cluster() -> Iterator[SimCluster]:
    """A cluster that has taken records for a while, and takes none any more."""
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # brokers that were killed left coroutines that never began
        made = SimCluster(plan())
        with closing(made.loop):
            made.boot()
            made.start_load()
            made.run_for(SECONDS)
            made.healing = True
            made.run_for(1.0)
            yield made
        del made
        gc.collect()


def damage(cluster: SimCluster, name: str, kind: str) -> None:
    process = broker(cluster, DAMAGED)
    identity = read_meta_properties(process.disk, process.log_dirs[0])
    assert identity is not None
    FILES[name][0](Folder(process), kind)
    cluster.invariants.incarnations.record_lost_directory(DAMAGED, [NAME], identity.directory_id)


@pytest.mark.parametrize(("name", "kind", "how", "scope"), CASES)
def test_nothing_acknowledged_is_lost(cluster: SimCluster, name: str, kind: str, how: str, scope: str) -> None:
    faults = Faults(cluster)
    assert len(Folder(broker(cluster, DAMAGED)).files(".log")) > 3, "segments to be damaged"
    stopped = [broker(cluster, DAMAGED)] if scope == "one" else brokers(cluster)
    stop(cluster, stopped, how)
    damage(cluster, name, kind)
    broker(cluster, DAMAGED).start()
    cluster.run_for(4.0)
    settle(cluster, faults)
    topic = cluster.metadata.newest.topics.by_name[TOPIC]
    acknowledged = cluster.invariants.ledgers[topic.topic_id, 0]
    assert acknowledged.end > 50
    assert not acknowledged.losses
    for process in brokers(cluster):
        assert process.broker is not None
        log = process.broker.broker.log_manager.get_log(NAME)
        assert log is not None
        assert (log.log_start_offset, log.log_end_offset) == (0, acknowledged.end), process.name
