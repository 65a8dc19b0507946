"""Hosts of a cluster's nodes: several machines from one cluster file. Sans-IO.

A node's host is an address that its listeners advertise to other machines. Nodes that advertise loopback addresses only
are all on one machine.
"""

from collections.abc import Iterator, Mapping

from kvorum.runtime.config import ConfigError, Settings
from kvorum.runtime.config_types import ENDPOINT
from kvorum.runtime.listeners import (
    ANY_ADDRESS,
    Endpoint,
    address,
    advertised_controller_listeners,
    advertised_listeners,
    controller_listener_names,
    inter_broker_listener_name,
    is_loopback,
)

ADVERTISED = "advertised.listeners"
LOCAL = ""
"""The host of nodes that no other machine reaches."""


def advertise(host: str, listeners: str) -> str:
    """Return `listeners` with this host in place of none and of 0.0.0.0."""
    found = []
    for text in listeners.split(","):
        match = ENDPOINT.fullmatch(text.strip())
        is_any = match is not None and match[2] in ("", *ANY_ADDRESS)
        found.append(f"{match[1]}://{address(host, int(match[3]))}" if match is not None and is_any else text.strip())
    return ",".join(found)


def default_controller_listener(settings: Settings) -> Endpoint | None:
    """Return where nodes connect to this controller: the first of controller.listener.names. None: it is a broker."""
    if "controller" not in settings.list("process.roles"):
        return None
    found = {each.listener_name: each for each in advertised_controller_listeners(settings)}
    return next((found[name] for name in controller_listener_names(settings) if name in found), None)


def among_nodes(settings: Settings) -> list[Endpoint]:
    """Return the advertised listeners of a node to which other nodes connect. Raises ConfigError."""
    found = []
    if "broker" in settings.list("process.roles"):
        name = inter_broker_listener_name(settings)
        found += [each for each in advertised_listeners(settings) if each.listener_name == name]
    controller = default_controller_listener(settings)
    return found if controller is None else [*found, controller]


def host_of(settings: Settings) -> str:
    """Return the address at which other machines reach a node, LOCAL if there is none. Raises ConfigError."""
    found = [*among_nodes(settings), *advertised_listeners(settings)]
    return next((each.host for each in found if not is_loopback(each.host)), LOCAL)


def check_hosts(nodes: Mapping[str, Settings]) -> list[str]:
    """Check that nodes on several hosts can connect to each other; return warnings. Raises ConfigError."""
    hosts = {name: host_of(settings) for name, settings in nodes.items()}
    if len({*hosts.values()}) < 2:
        return []
    warnings: list[str] = []
    for name, settings in nodes.items():
        other = next(each for each, host in hosts.items() if host != hosts[name])
        for endpoint in among_nodes(settings):
            if is_loopback(endpoint.host):
                reason = (
                    f"{endpoint.url}: {other} on {hosts[other] or 'another machine'} cannot connect to a loopback "
                    f"address of {name}; advertise an address of its machine (`host: ADDRESS` of the node)"
                )
                raise _error(settings, key_of(settings, endpoint), reason)
        controller = default_controller_listener(settings)
        if controller is not None and controller.port == 0:
            raise _error(settings, "listeners", f"port 0 of controller {name} is unknown on other machines: set it")
        warnings += [f"{name}: {warning}" for warning in unreachable_listeners(settings)]
    return warnings


def unreachable_listeners(settings: Settings) -> Iterator[str]:
    """Yield warnings about listeners for clients that advertise loopback addresses."""
    known = {each.listener_name for each in among_nodes(settings)}
    for endpoint in advertised_listeners(settings):
        if endpoint.listener_name not in known and is_loopback(endpoint.host):
            yield f"{key_of(settings, endpoint)}: clients on other machines cannot connect to {endpoint.url}"


def key_of(settings: Settings, endpoint: Endpoint) -> str:
    """Return the key that advertises an endpoint."""
    texts = settings.list(ADVERTISED)
    names = {text.partition("://")[0].strip().upper() for text in texts}
    return ADVERTISED if endpoint.listener_name in names else "listeners"


def _error(settings: Settings, key: str, reason: str) -> ConfigError:
    return ConfigError(key, settings.raw(key), settings.source(key).where, reason)
