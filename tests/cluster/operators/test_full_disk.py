"""A full disk ends a role with 65 and names its folder; the node runs again by itself once there is room."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kvorum.cluster.local.paths import NodePaths
from kvorum.cluster.process.exits import DiskFullFlag, Exit, fault_exit, leave_full_note
from kvorum.cluster.process.hosting import only_os_error
from kvorum.cluster.process.supervisor import ROOM_BYTES_MIN, Child, Supervisor
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.runtime.disk import OsDisk

MIB = 1024 * 1024


def caused_by(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


def test_an_error_of_the_metadata_disk_is_no_broken_invariant_and_names_the_folder() -> None:
    for number in (errno.ENOSPC, errno.EDQUOT):
        code, reason = fault_exit(OSError(number, os.strerror(number)), "/data/meta")
        assert code is Exit.DATA_REFUSED
        assert reason == f"the disk of /data/meta is full ({os.strerror(number)}): free space there"
    for number in (errno.EIO, errno.EROFS, errno.ENODEV):
        code, reason = fault_exit(OSError(number, os.strerror(number)), "/data/meta")
        assert code is Exit.DATA_REFUSED and reason.startswith("the disk of /data/meta failed: ")
    code, reason = fault_exit(OSError(errno.EMFILE, "Too many open files"), "/data/meta")
    assert code is Exit.CRASHED and "raise the limits" in reason


def test_the_error_below_a_storage_error_decides() -> None:
    storage = caused_by(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "x"), OSError(errno.ENOSPC, "No space left"))
    assert fault_exit(caused_by(RuntimeError("loading"), storage), "/data")[0] is Exit.DATA_REFUSED


@pytest.mark.parametrize("error", [ValueError("an unknown record"), ConnectionResetError(104, "reset"), TimeoutError()])
def test_any_other_fault_is_a_broken_invariant(error: Exception) -> None:
    assert fault_exit(error, "/data")[0] is Exit.FATAL


def test_a_start_that_lacks_descriptors_is_reported_without_a_stack() -> None:
    first = OSError(errno.EMFILE, "Too many open files", "/data/t-0")
    assert only_os_error(ExceptionGroup("opening", [ExceptionGroup("logs", [first])])) is first
    assert only_os_error(ExceptionGroup("opening", [first, ValueError()])) is None


class Room(OsDisk):
    """A disk that has as much room as a test says."""

    def __init__(self) -> None:
        self.free, self.total = 0, 100 * 1024 * MIB

    def free_bytes(self, path: str) -> int:
        """See Disk."""
        return self.free

    def total_bytes(self, path: str) -> int:
        """See Disk."""
        return self.total


def supervisor_of(folder: Path, room: Room) -> tuple[Supervisor, Child]:
    child = Child("controller", lambda: 0, None, folders=("/data/controller",))
    return Supervisor(NodePaths(str(folder)), [child], lambda: None, room), child


def test_a_role_that_ended_for_a_full_disk_waits_for_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room, started = Room(), []
    monkeypatch.setattr(Child, "start", lambda child: started.append(child.role))
    supervisor, child = supervisor_of(tmp_path, room)
    supervisor._handle_exit(child, Exit.DATA_REFUSED)
    assert child.restart_at is not None and not supervisor._stopping
    supervisor._restart(child)
    assert not started and child.restart_at is not None
    room.free = ROOM_BYTES_MIN
    supervisor._restart(child)
    assert started == ["controller"] and not child.waits_for_room


def test_a_role_that_refuses_its_data_with_room_on_the_disk_ends_the_node(tmp_path: Path) -> None:
    room = Room()
    room.free = ROOM_BYTES_MIN
    supervisor, child = supervisor_of(tmp_path, room)
    supervisor._handle_exit(child, Exit.DATA_REFUSED)
    assert child.restart_at is None and supervisor._stopping and supervisor._refusal == Exit.DATA_REFUSED


def test_a_small_file_system_is_full_with_less_than_a_quarter_free(tmp_path: Path) -> None:
    room = Room()
    room.total, room.free = 64 * MIB, 16 * MIB
    supervisor, child = supervisor_of(tmp_path, room)
    assert supervisor._full_folder(child) is None
    room.free -= 1
    assert supervisor._full_folder(child) == "/data/controller"


def test_a_role_that_noted_a_full_disk_is_started_again_though_there_is_room_by_now(tmp_path: Path) -> None:
    room = Room()
    room.free = ROOM_BYTES_MIN
    supervisor, child = supervisor_of(tmp_path, room)
    DiskFullFlag.own = child.full_note
    try:
        offline = caused_by(RuntimeError("all log directories are offline"), OSError(errno.ENOSPC, "No space left"))
        if os.fork() == 0:
            leave_full_note(offline)
            os._exit(0)
        os.wait()
    finally:
        DiskFullFlag.own = None
    supervisor._handle_exit(child, Exit.DATA_REFUSED)
    assert child.waits_for_room and not supervisor._stopping


NODE = """
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller}
log.dirs={disk}/data
"""
STEPS = """
import os, subprocess, sys, time
from confluent_kafka.admin import AdminClient, NewTopic
kvorum, disk, config, port, log = sys.argv[1:]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160m", "none", disk], check=True)
subprocess.run([kvorum, "format", config, "-t", "4L6g3nShT-eMCtK--X86sw"], check=True, stdout=subprocess.DEVNULL)
node = subprocess.Popen([kvorum, "node", config], stdout=open(log, "w"), stderr=subprocess.STDOUT)

def until(check, what, seconds=90):
    end = time.monotonic() + seconds
    while not check():
        if time.monotonic() > end:
            node.kill()
            sys.exit(f"never: {what}")
        time.sleep(0.1)

def creates(name):
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
    try:
        admin.create_topics([NewTopic(name, 1, 1)], request_timeout=5)[name].result(6)
    except Exception as error:
        return "TOPIC_ALREADY_EXISTS" in str(error)
    return True

text = lambda: open(log).read()
until(lambda: creates("before"), "topics are created")
with open(disk + "/filler", "wb") as filler:
    try:
        while True:
            filler.write(bytes(1 << 20))
            filler.flush()
    except OSError:
        pass
names = iter(range(10**6))
until(lambda: creates(f"full-{next(names)}") and False or "role=controller code=65" in text(), "the controller ends")
os.remove(disk + "/filler")
until(lambda: creates("after"), "the node works again")
node.terminate()
sys.exit(node.wait(60))
"""


def may_mount() -> bool:
    return (
        shutil.which("unshare") is not None
        and subprocess.run(
            ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
        ).returncode
        == 0
    )


@pytest.mark.long
def test_a_node_works_again_once_its_full_disk_has_room(tmp_path: Path) -> None:
    if not may_mount():
        pytest.skip("mounting a tmpfs in a namespace of its own is not permitted here")
    from kvorum.cluster.local.ports import free_ports

    broker, controller = free_ports(["127.0.0.1", "127.0.0.1"])
    disk = tmp_path / "disk"
    disk.mkdir()
    config, log = tmp_path / "node.properties", tmp_path / "node.log"
    config.write_text(NODE.format(broker=broker, controller=controller, disk=disk))
    kvorum = str(Path(sys.executable).with_name("kvorum"))
    steps = [sys.executable, "-c", STEPS, kvorum, str(disk), str(config), str(broker), str(log)]
    done = subprocess.run(["unshare", "-m", *steps], capture_output=True, text=True, timeout=300, check=False)
    message = log.read_text()
    assert done.returncode == 0, done.stderr + message[-4000:]
    assert f"the disk of {disk}/data-controller is full (No space left on device): free space there" in message
    assert f"role=controller code=65 folder={disk}/data-controller" in message
    assert "Traceback" not in message and "broken invariant" not in message
