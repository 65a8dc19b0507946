"""Whether a node's ports can be bound, checked before the node is formatted and before its processes start."""

import errno
import os
import socket
import time
from collections.abc import Iterator
from typing import Final, NamedTuple

from kvorum.runtime.config import Settings
from kvorum.runtime.listeners import admin_listeners, chaos_listener, listeners, metrics_listener

TAKEN_SECONDS: Final = 2.0
"""A process that was killed may hold its ports for a moment after its pid is gone."""
RETRY_SECONDS: Final = 0.05


class Listener(NamedTuple):
    """One address that a node listens on; `label` names it in messages: "listener PLAINTEXT", "admin.listeners"."""

    label: str
    host: str
    port: int


class PortProblem(NamedTuple):
    """Why a listener cannot be bound. `is_taken`: another socket listens there, which may end."""

    listener: Listener
    text: str
    is_taken: bool

    def of_node(self, name: str) -> str:
        """Return the problem as a message, with the node's name if it has one."""
        owner = f" of {name}" if name else ""
        return self.text.replace("{label}", f"({self.listener.label}{owner})")


def listeners_of(settings: Settings) -> Iterator[Listener]:
    """Yield every address with a port that a node's processes listen on. Raises ConfigError."""
    for endpoint in listeners(settings):
        yield Listener(f"listener {endpoint.listener_name}", endpoint.host, endpoint.port)
    for http in admin_listeners(settings):
        yield Listener("admin.listeners", http.host, http.port)
    for role in settings.list("process.roles"):
        metrics, chaos = metrics_listener(settings, role), chaos_listener(settings, role)
        if metrics is not None:
            yield Listener(f"metrics of the {role}", metrics.host, metrics.port)
        if chaos is not None:
            yield Listener(f"chaos listener of the {role}", chaos.host, chaos.port)


def port_problem(settings: Settings, patience_seconds: float = 0.0) -> PortProblem | None:
    """Return why one of the node's listeners cannot be bound now, None if all can. Port 0 is not checked.

    A port in use is tried again for `patience_seconds`. Raises ConfigError.
    """
    deadline = time.monotonic() + patience_seconds
    for listener in listeners_of(settings):
        while (found := _problem(listener)) is not None:
            if not found.is_taken or time.monotonic() >= deadline:
                return found
            time.sleep(RETRY_SECONDS)
    return None


def _problem(listener: Listener) -> PortProblem | None:
    """Try to bind one listener, as the server does."""
    _, host, port = listener
    if port == 0:
        return None
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        return PortProblem(listener, f"the host {host} {{label}} has no address: {error.strerror}", False)
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as trial:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    trial.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                trial.bind(address)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return PortProblem(listener, f"port {port} {{label}} is in use", True)
            if error.errno == errno.EACCES:
                text = f"port {port} {{label}} may not be bound by user id {os.geteuid()}: permission denied"
                return PortProblem(listener, text, False)
            if error.errno == errno.EADDRNOTAVAIL:
                return PortProblem(listener, f"{host} {{label}} is not an address of this machine", False)
            if family != socket.AF_INET6 or host:  # a machine without IPv6 binds the rest
                return PortProblem(listener, f"port {port} {{label}} cannot be bound: {error.strerror}", False)
    return None
