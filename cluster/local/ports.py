"""Ports given as 0: a free one is chosen when a node is formatted, recorded in its folder, and kept over restarts.

The records are overrides of the node's configuration. One is valid only while the configuration still has 0: a port, or
other listeners, written into the configuration later have precedence.
"""

import errno
import re
import socket
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Final

from kvorum.cluster.local.paths import NodePaths
from kvorum.runtime.chance import new_random
from kvorum.runtime.config import ConfigError, Settings
from kvorum.runtime.disk import Disk
from kvorum.runtime.listeners import controller_listeners, voters

PORT_KEYS = (
    *("listeners", "metrics.listener", "kvorum.controller.metrics.listener", "admin.listeners"),
    *("kvorum.chaos.listener", "kvorum.controller.chaos.listener"),
)
"""Listeners of a node. advertised.listeners and controller.quorum.voters follow from the first."""
ADVERTISED, VOTERS = "advertised.listeners", "controller.quorum.voters"
OPEN_PORT = re.compile(r"(\[[^\]\s]*\]|[^,:\s\[\]/@]*):0(?=,|/|\s|$)")
"""HOST:0 in a list of addresses."""


FIRST_PORT: Final = 20_000
TRIES_MAX: Final = 100
"""Drawn ports that are taken; then the kernel may choose."""
EPHEMERAL_RANGE: Final = "/proc/sys/net/ipv4/ip_local_port_range"
EPHEMERAL_DEFAULT: Final = 32_768


RESERVED_MAX: Final = 256
"""The last drawn ports, which others on this machine leave alone."""
_reserved: deque[int] = deque()
"""Descriptors of the sockets that reserve them: the end of the process closes them."""


def free_ports(hosts: Iterable[str]) -> list[int]:
    """Return a free port for each host: all are held until all are chosen, so that all differ.

    A node binds its ports a second later, or again after a crash. So that no other new cluster gets them, they are
    reserved while this process runs (the last RESERVED_MAX of them).

    They are below the kernel's range for clients: no connection may take a node's port while the node is down. Raises
    OSError if a host is not an address of this machine.
    """
    chance, above = new_random(), ephemeral_start()
    with ExitStack() as stack:
        ports = []
        for host in hosts:
            drawn = [chance.randrange(FIRST_PORT, above) for _ in range(TRIES_MAX)]
            holder = stack.enter_context(bound(host, drawn))
            ports.append(holder.getsockname()[1])
        return ports


def bound(host: str, drawn: Iterable[int]) -> socket.socket:
    """Return a socket on the first of these ports that is free, or else on any. Raises OSError."""
    for port in (*drawn, 0):
        holder = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        try:
            holder.bind((host or "127.0.0.1", port))
            if port:
                reserve(port)
        except OSError as error:
            holder.close()
            if error.errno != errno.EADDRINUSE or port == 0:
                raise
        else:
            return holder
    raise AssertionError("the last port is 0")


def reserve(port: int) -> None:
    """Reserve a port among Kvorum's processes, by a socket with a name in no folder. Raises OSError EADDRINUSE."""
    with socket.socket(socket.AF_UNIX) as mark:
        mark.bind(f"\0kvorum-port-{port}")
        _reserved.append(mark.detach())
    if len(_reserved) > RESERVED_MAX:
        socket.close(_reserved.popleft())


def ephemeral_start() -> int:
    """Return the first ephemeral port of the kernel; Linux's default if the setting is too low."""
    try:
        with open(EPHEMERAL_RANGE, encoding="ascii") as file:
            start = int(file.read().split()[0])
    except OSError:
        return EPHEMERAL_DEFAULT
    return start if start > FIRST_PORT + TRIES_MAX else EPHEMERAL_DEFAULT


def open_hosts(texts: Mapping[str, str]) -> list[str]:
    """Return the host of every port to choose, in the order of `fill_ports`."""
    return [match[1].strip("[]") for key in PORT_KEYS for match in OPEN_PORT.finditer(texts.get(key, ""))]


def fill_ports(texts: Mapping[str, str], ports: Iterator[int]) -> dict[str, str]:
    """Return the changes of a node's configuration when each port given as 0 becomes the next of `ports`."""
    changed: dict[str, str] = {}
    for key in PORT_KEYS:
        if OPEN_PORT.search(texts.get(key, "")):
            changed[key] = OPEN_PORT.sub(lambda match: f"{match[1]}:{next(ports)}", texts[key])
    chosen = {item.partition("://")[0].strip(): item for item in changed.get("listeners", "").split(",")}
    if OPEN_PORT.search(texts.get(ADVERTISED, "")):
        items = [_advertised(item.strip(), chosen) for item in texts[ADVERTISED].split(",")]
        changed[ADVERTISED] = ",".join(items)
    return changed


def _advertised(item: str, listeners: Mapping[str, str]) -> str:
    """Return an advertised listener with the port of its listener if it has none."""
    own = listeners.get(item.partition("://")[0], "")
    return OPEN_PORT.sub(lambda match: f"{match[1]}:{own.rpartition(':')[2]}" if own else match[0], item)


def resolve_ports(settings: Settings) -> dict[str, str]:
    """Return the overrides that replace every port 0 of this node by a free one; empty without any.

    This node's own entry in controller.quorum.voters follows its listener. Raises ConfigError if another controller's
    port is 0 (only that node could know it), or a listener's host is not an address of this machine.
    """
    texts = {key: entry.text for key, entry in settings.explicit().items()}
    hosts = open_hosts(texts)
    try:
        changed = fill_ports(texts, iter(free_ports(hosts)))
    except OSError as error:
        reason = f"no free port can be chosen on {', '.join(sorted(set(hosts)))}: {error.strerror}"
        raise ConfigError("listeners", settings.raw("listeners"), settings.source("listeners").where, reason) from error
    own, resolved = settings.int("node.id"), settings.with_overrides(changed)
    open_voters = [voter for voter, (_, port) in voters(settings).items() if port == 0]
    if own in open_voters and (found := controller_listeners(resolved)):
        items = [item.strip() for item in texts[VOTERS].split(",")]
        changed[VOTERS] = ",".join(
            f"{item.rpartition(':')[0]}:{found[0].port}" if item.partition("@")[0] == str(own) else item
            for item in items
        )
    check_voters_ports(settings.with_overrides(changed))
    return changed


def check_voters_ports(settings: Settings) -> None:
    """Reject a controller whose port cannot be known to the others. Raises ConfigError."""
    for voter, (_, port) in voters(settings).items():
        if port == 0:
            own = voter == settings.int("node.id")
            reason = (
                "the port of this node is not chosen yet: run `kvorum format`"
                if own
                else f"port 0 of node {voter} is chosen on that node: set the port of every other voter"
            )
            raise ConfigError(VOTERS, settings.raw(VOTERS), settings.source(VOTERS).where, reason)


def write_ports(disk: Disk, paths: NodePaths, overrides: Mapping[str, str]) -> None:
    """Record the chosen ports in the node's folder."""
    disk.mkdir(paths.folder)
    text = "# Ports chosen by `kvorum format` where the configuration has 0.\n"
    disk.write_atomic(paths.ports, (text + "".join(f"{k}={v}\n" for k, v in overrides.items())).encode())


def read_ports(paths: NodePaths) -> list[str]:
    """Return the recorded overrides, as KEY=VALUE; empty without a record. Raises OSError."""
    try:
        with open(paths.ports, encoding="utf-8") as file:
            return [line.strip() for line in file if line.strip() and not line.startswith("#")]
    except FileNotFoundError:
        return []


def still_open(recorded: list[str], settings: Settings) -> list[str]:
    """Return those of the recorded overrides whose port the configuration still gives as 0."""
    texts = {key: entry.text for key, entry in settings.explicit().items()}
    return [line for line in recorded if OPEN_PORT.search(texts.get(line.partition("=")[0], ""))]
