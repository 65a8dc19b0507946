"""A private network with one namespace per node: faults that a proxy lacks (lost SYNs and packets), per direction.

    node-1 [eth0 127.77.0.1] ---veth--- v1 \\
    node-2 [eth0 127.77.0.2] ---veth--- v2 - bridge, in a namespace of its own
    clients [eth0 ...]       ---veth--- v3 /

nftables drops packets in the receiver's input: the sender gets no reply. Addresses are by default 127.77.0.x,
routed over the veth (route_localnet, the loopback shrunk to 127.0.0.1): without authentication a controller listens on
loopback addresses only, also here. Everything is removed when the holders end, and they end with this process.
"""

import asyncio
import ctypes
import os
import shutil
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from kvorum.chaos.faults.namespace_holder import NamespaceHolder, NotPermitted

NETWORK: Final = "127.77.0"
MEMBERS_MAX: Final = 200
PROGRAMS: Final = {
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "ip": "iproute2",
    "nft": "nftables",
}
"""{program: the Debian package that has it}."""
TABLE: Final = "inet kvorum"
CLONE_NEWNET: Final = 0x40000000
THREAD_SECONDS: Final = 120.0

MEMBER_SETUP: Final = """
ip link set lo up
ip addr del 127.0.0.1/8 dev lo
ip addr add 127.0.0.1/32 dev lo
echo 1 >/proc/sys/net/ipv4/conf/all/route_localnet
nft add table inet kvorum
nft add chain inet kvorum input '{ type filter hook input priority 0; }'
"""
JOIN: Final = """
set -e
echo 1 >/proc/sys/net/ipv4/conf/eth0/route_localnet
echo 1 >/proc/sys/net/ipv4/conf/eth0/arp_notify
ip addr add "$1/24" dev eth0
ip link set eth0 up
"""
"""A member announces itself (arp_notify): it may have the address of a former one."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rule:
    """One nftables rule in a member's namespace."""

    member: str
    handle: str


def missing_programs() -> list[str]:
    """Return what to install, as `nft (Debian package nftables)`."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return [
        f"{name} (Debian package {package})" for name, package in PROGRAMS.items() if not shutil.which(name, path=path)
    ]


@dataclass(slots=True)
class Namespaces:
    """The network. Make it with `create`, end it with `close`."""

    hub: NamespaceHolder
    prefix: str = NETWORK
    """The first three bytes of each address."""
    members: dict[str, NamespaceHolder] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    _links: int = 0

    @classmethod
    def create(cls, names: Sequence[str], prefix: str = NETWORK) -> "Namespaces":
        """Make one namespace per name, all on one bridge. Raises NotPermitted: not root, no nft, no kernel module."""
        assert 0 < len(names) <= MEMBERS_MAX, "one byte of the address"
        missing = missing_programs()
        if missing:
            raise NotPermitted(f"network namespaces need {', '.join(missing)}")
        network = cls(NamespaceHolder.start("net", "ip link add br0 type bridge; ip link set br0 up"), prefix)
        try:
            for number, name in enumerate(names, start=1):
                network.add(name, number)
        except NotPermitted:
            network.close()
            raise
        return network

    def add(self, name: str, number: int) -> None:
        """Add a member with the last byte of its address. Raises NotPermitted."""
        holder = self.members[name] = NamespaceHolder.start("net", MEMBER_SETUP)
        address = self.addresses[name] = f"{self.prefix}.{number}"
        self._links += 1  # the kernel removes the link of a former member late
        port = f"v{self._links}"
        peer = ["peer", "name", "eth0", "netns", str(holder.pid)]
        self.hub.run("ip", "link", "add", port, "type", "veth", *peer)
        self.hub.run("ip", "link", "set", port, "master", "br0", "up")
        holder.run("sh", "-c", JOIN, "sh", address)

    def remove_member(self, name: str) -> None:
        """Remove a member and its link; its processes must have ended."""
        self.members.pop(name).close()
        del self.addresses[name]

    def command_prefix(self, name: str) -> list[str]:
        """Return the command prefix with which a command runs in a member's namespace."""
        return self.members[name].command_prefix()

    def drop(self, source: str, target: str) -> list[Rule]:
        """Lose every packet from source to target; the other direction is unchanged. Raises NotPermitted."""
        return [self._rule(source, target, "drop")]

    def drop_syn(self, source: str, target: str) -> list[Rule]:
        """Lose what opens connections from source to target: those open live on. Raises NotPermitted."""
        return [self._rule(source, target, "tcp flags & (syn | ack) == syn drop")]

    def lose(self, source: str, target: str, percent: int) -> list[Rule]:
        """Lose this share of the packets from source to target. Raises NotPermitted."""
        if not 0 < percent <= 100:
            raise ValueError(f"invalid packet loss: {percent} %")
        return [self._rule(source, target, f"numgen random mod 100 < {percent} drop")]

    def _rule(self, source: str, target: str, what: str) -> Rule:
        rule = f"add rule {TABLE} input ip saddr {self.addresses[source]} {what}"
        printed = self.members[target].run("nft", "--echo", "--handle", "-f", "-", stdin=rule + "\n")
        handle = printed.rpartition("# handle ")[2].split()
        assert handle and handle[0].isdigit(), printed
        return Rule(target, handle[0])

    def remove(self, rules: Sequence[Rule]) -> None:
        """Take rules out again. Raises NotPermitted."""
        for rule in rules:
            self.members[rule.member].run("nft", "delete", "rule", *TABLE.split(), "input", "handle", rule.handle)

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """Move the calling thread into a member's namespace for a while; its sockets and new threads stay there.

        Raises OSError.
        """
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            enter(self.members[name].pid)
            try:
                yield
            finally:
                _set_namespace(home)
        finally:
            os.close(home)

    def call(self, name: str, function: Callable[[], T]) -> T:
        """Call a function in a thread in a member's namespace; threads that it starts are also there (a client's).

        Raises what the function raises, TimeoutError after THREAD_SECONDS.
        """
        results: list[T] = []
        errors: list[BaseException] = []

        def inside() -> None:
            try:
                enter(self.members[name].pid)
                results.append(function())
            except BaseException as error:  # handed to the caller, whatever it is
                errors.append(error)

        thread = threading.Thread(target=inside, name=f"in-{name}", daemon=True)
        thread.start()
        thread.join(THREAD_SECONDS)
        if thread.is_alive():
            raise TimeoutError(f"a call inside {name} took longer than {THREAD_SECONDS} s")
        if errors:
            raise errors[0]
        return results[0]

    def run_loop(self, name: str, coroutine: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """As `call`, for what needs an event loop."""
        return self.call(name, lambda: asyncio.run(coroutine()))

    def close(self) -> None:
        """Remove everything. Idempotent."""
        for holder in (*self.members.values(), self.hub):
            holder.close()


def enter(pid: int) -> None:
    """Move the calling thread into the network namespace of a process. Raises OSError."""
    fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _set_namespace(fd)
    finally:
        os.close(fd)


def _set_namespace(fd: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(fd, CLONE_NEWNET) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"setns: {os.strerror(error)}")
