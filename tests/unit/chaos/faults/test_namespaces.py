"""Networks and disks of the run's own: lost packets and SYNs seen by pings, disks that fill up, nothing left behind."""

import errno
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kvorum.chaos.faults.namespace_holder import NamespaceHolder, NotPermitted
from kvorum.chaos.faults.namespaces import Namespaces
from kvorum.chaos.faults.small_disk import SmallDisk
from tests.unit.chaos.faults.conftest import Client, Echo

PORT = 9000
PACKETS = 200
"""Few enough for a receive buffer of the usual size."""
DISK_BYTES = 1024 * 1024


@pytest.fixture
def network() -> Iterator[Namespaces]:
    """Three members: a and b, and c, whom faults between the two do not concern."""
    try:
        found = Namespaces.create(["a", "b", "c"])
    except NotPermitted as error:
        pytest.skip(f"network namespaces: {error}")
    yield found
    found.close()


@pytest.fixture
def echo_in_b(network: Namespaces) -> Iterator[Echo]:
    """An echo server in b's namespace."""

    def serve() -> Echo:
        found = Echo(socket.create_server((network.addresses["b"], PORT)))
        threading.Thread(target=found.serve, daemon=True).start()
        return found

    found = network.call("b", serve)
    yield found
    found.listener.shutdown(socket.SHUT_RDWR)
    found.listener.close()


def connect_refused(network: Namespaces) -> None:
    """Let a and b learn each other's hardware address, so that nothing else than the fault loses packets."""
    with pytest.raises(ConnectionRefusedError):
        connect(network, "a")


def connect(network: Namespaces, source: str, seconds: float = 0.3) -> Client:
    """Connect from a member to b. Raises TimeoutError where the SYN is lost."""
    address = (network.addresses["b"], PORT)
    return Client(network.call(source, lambda: socket.create_connection(address, timeout=seconds)))


def test_members_reach_each_other_and_no_other_process_reaches_them(network: Namespaces, echo_in_b: Echo) -> None:
    with closing(connect(network, "a").connection) as connection:
        assert connection.getsockname()[0] == network.addresses["a"]
        assert Client(connection).best_ping(1) < 1
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((network.addresses["b"], PORT), timeout=0.3)


def test_a_thread_leaves_the_namespace_and_its_started_threads_stay(network: Namespaces, echo_in_b: Echo) -> None:
    home = os.readlink("/proc/thread-self/ns/net")
    go, found = threading.Event(), []

    def later() -> None:
        go.wait(10)
        with socket.create_connection((network.addresses["b"], PORT), timeout=5) as connection:
            found.append(connection.getsockname()[0])

    with network.inside("a"):
        thread = threading.Thread(target=later)
        thread.start()
        assert os.readlink("/proc/thread-self/ns/net") != home
        with closing(socket.create_connection((network.addresses["b"], PORT), timeout=5)) as connection:
            assert connection.getsockname()[0] == network.addresses["a"]
    assert os.readlink("/proc/thread-self/ns/net") == home
    go.set()
    thread.join(10)
    assert found == [network.addresses["a"]]


def test_a_drop_is_silence_one_way_until_it_ends(network: Namespaces, echo_in_b: Echo) -> None:
    client = connect(network, "a")
    with closing(client.connection):
        client.ping()
        rules = network.drop("a", "b")
        with pytest.raises(TimeoutError):
            client.ping(b"lost", 0.3)
        connect(network, "c").connection.close()
        network.remove(rules)
        assert client.read(4, 10) == b"lost", "the kernel sends it again: nothing is lost for good"


def test_a_lost_syn_keeps_connections_from_being_made_while_those_open_live_on(
    network: Namespaces, echo_in_b: Echo
) -> None:
    client = connect(network, "a")
    with closing(client.connection):
        rules = network.drop_syn("a", "b")
        with pytest.raises(TimeoutError):
            connect(network, "a")
        assert client.best_ping(1) < 1
        network.remove(rules)
        connect(network, "a").connection.close()


def test_packet_loss_loses_about_its_share(network: Namespaces) -> None:
    address = (network.addresses["b"], PORT)

    def receiver() -> socket.socket:
        found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        found.bind(address)
        return found

    def send() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for number in range(PACKETS):
                sender.sendto(b"%d" % number, address)

    connect_refused(network)
    network.lose("a", "b", 40)
    with closing(network.call("b", receiver)) as inbox:
        inbox.settimeout(0.3)
        network.call("a", send)
        received = 0
        try:
            while True:
                inbox.recv(100)
                received += 1
        except TimeoutError:
            pass
    assert 0.4 * PACKETS < received < 0.8 * PACKETS
    with pytest.raises(ValueError, match="0 %"):
        network.lose("a", "b", 0)


def test_an_exception_inside_reaches_the_caller(network: Namespaces) -> None:
    def fail() -> None:
        raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        network.call("a", fail)


ORPHANS = """
import sys, time
from kvorum.chaos.faults.namespaces import Namespaces
network = Namespaces.create(["a", "b"])
print(*(holder.pid for holder in (network.hub, *network.members.values())), flush=True)
time.sleep(60)
"""


def test_keepers_end_with_a_process_that_was_killed(network: Namespaces) -> None:
    with subprocess.Popen([sys.executable, "-c", ORPHANS], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        fds = [os.pidfd_open(int(pid)) for pid in owner.stdout.readline().split()]
        assert len(fds) == 3
        owner.kill()
    for fd in fds:
        assert readable(fd), "a holder outlived its owner"
        os.close(fd)


def readable(fd: int) -> bool:
    """Wait until a pidfd tells of its process's end."""
    import select

    return bool(select.select([fd], [], [], 10)[0])


def test_the_output_of_a_failed_setup_is_reported() -> None:
    try:
        NamespaceHolder.start("net").close()
    except NotPermitted as error:
        pytest.skip(str(error))
    with pytest.raises(NotPermitted, match="no such thing"):
        NamespaceHolder.start("net", "echo no such thing; exit 1")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A directory with a file on a disk of 1 MiB."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "before").write_text("was there")
    try:
        disk = SmallDisk.mount(str(folder), DISK_BYTES)
    except NotPermitted as error:
        pytest.skip(f"mount namespaces: {error}")
    yield disk
    disk.close()


def test_a_small_disk_has_the_directorys_content_and_is_visible_only_inside(small_disk: SmallDisk) -> None:
    inside = Path(small_disk.outside(small_disk.directory))
    assert (inside / "before").read_text() == "was there"
    (inside / "new").write_text("inside only")
    assert small_disk.holder.run("ls", small_disk.directory).split() == ["before", "new"]
    assert not (Path(small_disk.directory) / "new").exists()
    assert sorted(path.name for path in Path(small_disk.directory).parent.iterdir()) == ["data"]


def test_a_full_disk_takes_nothing_until_it_has_room_again(small_disk: SmallDisk) -> None:
    path = Path(small_disk.outside(small_disk.directory)) / "more"
    small_disk.fill()
    assert os.statvfs(path.parent).f_bavail == 0
    with pytest.raises(OSError, match="No space left") as raised:
        path.write_bytes(b"x" * 5000)
    assert raised.value.errno == errno.ENOSPC
    small_disk.empty()
    small_disk.empty()
    path.write_bytes(b"x" * 5000)


def test_a_read_only_disk_lets_nothing_be_opened_for_writing_though_files_are_open(small_disk: SmallDisk) -> None:
    path = Path(small_disk.outside(small_disk.directory)) / "file"
    with path.open("wb") as file:
        small_disk.make_read_only()
        with pytest.raises(OSError, match="Read-only") as raised:
            path.open("ab")
        assert raised.value.errno == errno.EROFS
        file.write(b"still open")
    assert path.read_bytes() == b"still open"
    small_disk.make_writable()
    path.write_bytes(b"again")
