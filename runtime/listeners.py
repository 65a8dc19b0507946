"""`listeners`, `advertised.listeners`, `listener.security.protocol.map`: own and advertised addresses of a node.

Sans-IO. A listener is NAME://HOST:PORT; its name is upper-cased and unique, and the map has its security protocol
(unset: each protocol is a name, and a controller listener is PLAINTEXT unless TLS or SASL is used).
No host means every address of the machine; port 0 means that one is chosen at format time and recorded in the node's
directory. Matches Kafka's SocketServerConfigs.listenerListToEndPoints and AbstractKafkaConfig.
"""

import re
from dataclasses import dataclass, replace
from enum import IntEnum

from kvorum.runtime.config import ConfigError, Settings
from kvorum.runtime.config_types import ENDPOINT, PORT_MAX, parse_protocol_map

PEER_ADDRESS = re.compile(
    r"(?:(?P<own>broker|controller)>(?P<peer>broker|controller)/)?(?P<id>[0-9]{1,10})=(?P<address>.+)"
)
CONNECT_URL = re.compile(
    r"https?://(?:\[[0-9a-f:.]+\]|[0-9a-z._-]+)(?::(?P<port>[0-9]{1,5}))?(?P<path>(?:/[0-9a-z._~-]+)*)/?", re.IGNORECASE
)
"""No user name and password before the host: configs are visible to clients."""
ANY_ADDRESS = ("0.0.0.0", "::")
LOOPBACK = "127.0.0.1"
HTTP, HTTPS = "http", "https"
LOOPBACK_HOSTS = ("localhost", "::1")
CONTROLLER_METRICS_PORT_OFFSET = 100


class SecurityProtocol(IntEnum):
    """Kafka's protocols; the number is the one on the wire (BrokerRegistration, UpdateRaftVoter)."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One place a node is reached at."""

    listener_name: str
    security_protocol: SecurityProtocol
    host: str
    """Empty: every address of the machine."""
    port: int
    """0: not chosen yet."""

    @property
    def url(self) -> str:
        """Return NAME://HOST:PORT as the config has it."""
        return f"{self.listener_name}://{address(self.host, self.port)}"


@dataclass(frozen=True, slots=True)
class HttpEndpoint:
    """One place HTTP is served at."""

    host: str
    port: int
    is_tls: bool = False

    @property
    def url(self) -> str:
        """Return http://HOST:PORT or https://HOST:PORT."""
        return f"{HTTPS if self.is_tls else HTTP}://{address(self.host, self.port)}"


def address(host: str, port: int) -> str:
    """Write HOST:PORT, an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_address(text: str) -> tuple[str, int] | None:
    """Read HOST:PORT (an IPv6 host in brackets); None if invalid."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > PORT_MAX or (":" in host and host[0] + host[-1] != "[]"):
        return None
    return host.removeprefix("[").removesuffix("]"), int(port)


def protocol_map(settings: Settings) -> dict[str, SecurityProtocol]:
    """Return {listener name: protocol} as in force. Raises ConfigError."""
    key = "listener.security.protocol.map"
    protocols = {name: SecurityProtocol[protocol] for name, protocol in parse_protocol_map(settings.str(key)).items()}
    if key not in settings.explicit():
        controllers = controller_listener_names(settings)
        in_use = {*controllers, *(text.partition("://")[0].strip().upper() for text in settings.list("listeners"))}
        if not in_use & {"SSL", "SASL_SSL", "SASL_PLAINTEXT"}:
            protocols |= {name: SecurityProtocol.PLAINTEXT for name in controllers}
    return protocols


def controller_listener_names(settings: Settings) -> list[str]:
    """Return `controller.listener.names`, upper-cased."""
    return [name.upper() for name in settings.list("controller.listener.names")]


def listeners(settings: Settings) -> list[Endpoint]:
    """Return all that this node listens on, brokers' and controllers'. Raises ConfigError."""
    return _endpoints(settings, "listeners")


def broker_listeners(settings: Settings) -> list[Endpoint]:
    """Return the listeners of the broker process."""
    controllers = controller_listener_names(settings)
    return [endpoint for endpoint in listeners(settings) if endpoint.listener_name not in controllers]


def controller_listeners(settings: Settings) -> list[Endpoint]:
    """Return the listeners of the controller process."""
    controllers = controller_listener_names(settings)
    return [endpoint for endpoint in listeners(settings) if endpoint.listener_name in controllers]


def advertised_listeners(settings: Settings, default_host: str = LOOPBACK) -> list[Endpoint]:
    """Return the broker's advertised listeners: `advertised.listeners`, else its own listeners.

    `default_host` is used for a listener without a host (Kafka: the machine's name). Raises ConfigError.
    """
    return _advertised(settings, broker_listeners(settings), default_host)


def advertised_controller_listeners(settings: Settings, default_host: str = LOOPBACK) -> list[Endpoint]:
    """Return the endpoints that the controller registers with the quorum: advertised ones, else its own listeners."""
    return _advertised(settings, controller_listeners(settings), default_host)


def inter_broker_listener_name(settings: Settings) -> str:
    """Return the listener brokers use among themselves. Raises ConfigError.

    `inter.broker.listener.name`, else the first advertised one whose protocol is `security.inter.broker.protocol`.
    """
    name = settings.optional_str("inter.broker.listener.name")
    if name is not None:
        if "security.inter.broker.protocol" in settings.explicit():
            raise _error(settings, "inter.broker.listener.name", "set either this or security.inter.broker.protocol")
        return name.upper()
    wanted = SecurityProtocol[settings.str("security.inter.broker.protocol")]
    # Kafka takes the protocol's own name; with listeners named otherwise that could only fail: take the first fitting.
    fitting = [each.listener_name for each in advertised_listeners(settings) if each.security_protocol is wanted]
    return wanted.name if wanted.name in fitting or not fitting else fitting[0]


def http_endpoint(settings: Settings, key: str, text: str) -> HttpEndpoint:
    """Read http://HOST:PORT, https://HOST:PORT or HOST:PORT. Raises ConfigError naming the key."""
    found = parse_http_endpoint(text)
    if found is None:
        raise _error(settings, key, f"{text!r} is not of the form http://HOST:PORT or https://HOST:PORT")
    return found


def parse_http_endpoint(text: str) -> HttpEndpoint | None:
    """Read http://HOST:PORT, https://HOST:PORT or HOST:PORT; None if invalid."""
    scheme, _, rest = text.rpartition("://")
    found = split_address(rest.removesuffix("/"))
    if found is None or scheme.lower() not in ("", HTTP, HTTPS):
        return None
    return HttpEndpoint(found[0] or LOOPBACK, found[1], scheme.lower() == HTTPS)


def admin_listeners(settings: Settings) -> list[HttpEndpoint]:
    """Return the listeners of this node's admin process; none: there is no such process. Raises ConfigError."""
    return [http_endpoint(settings, "admin.listeners", text) for text in settings.list("admin.listeners")]


def connect_urls(settings: Settings) -> list[str]:
    """Return where Kafka Connect's REST interface is, without a slash at the end; none: nowhere. Raises ConfigError."""
    key = "kvorum.connect.urls"
    found = []
    for text in settings.list(key):
        match = CONNECT_URL.fullmatch(text)
        port = int(match["port"] or 1) if match is not None else 0
        if match is None or not 0 < port <= PORT_MAX or {".", ".."} & {*match["path"].split("/")}:
            raise _error(settings, key, f"{text!r} is not of the form http://HOST:PORT")
        found.append(text.rstrip("/"))
    return found


def metrics_listener(settings: Settings, role: str) -> HttpEndpoint | None:
    """Return where the `broker` or `controller` process of this node serves metrics and health; None: nowhere."""
    assert role in ("broker", "controller"), role
    text = settings.optional_str("metrics.listener")
    if role == "controller" and "broker" in settings.list("process.roles"):
        own = settings.optional_str("kvorum.controller.metrics.listener")
        if own is not None:
            return http_endpoint(settings, "kvorum.controller.metrics.listener", own)
        if text is None:
            return None
        shared = http_endpoint(settings, "metrics.listener", text)
        return replace(shared, port=shared.port + CONTROLLER_METRICS_PORT_OFFSET) if shared.port else shared
    return None if text is None else http_endpoint(settings, "metrics.listener", text)


def http_endpoints(settings: Settings) -> list[HttpEndpoint]:
    """Return all HTTP listeners of this node's processes, without that for fault injection. Raises ConfigError."""
    metrics = (metrics_listener(settings, role) for role in settings.list("process.roles"))
    return [*admin_listeners(settings), *(each for each in metrics if each is not None)]


def chaos_listener(settings: Settings, role: str) -> HttpEndpoint | None:
    """Return the listener for fault injection into the `broker` or `controller` process; None: disabled.

    Raises ConfigError.

    Loopback only, whatever the other configuration.
    """
    assert role in ("broker", "controller"), role
    key, text = "kvorum.chaos.listener", settings.optional_str("kvorum.chaos.listener")
    moved = 0
    if role == "controller" and "broker" in settings.list("process.roles"):
        own = settings.optional_str("kvorum.controller.chaos.listener")
        if own is None:
            moved = CONTROLLER_METRICS_PORT_OFFSET
        else:
            key, text = "kvorum.controller.chaos.listener", own
    if text is None:
        return None
    found = split_address(text)
    if found is None:
        raise _error(settings, key, f"{text!r} is not of the form HOST:PORT")
    if not is_loopback(found[0]):
        raise _error(settings, key, "fault injection is permitted on this machine only: listen on 127.0.0.1")
    return HttpEndpoint(found[0], found[1] + moved if found[1] else 0)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address; without a host: every address."""
    return host in LOOPBACK_HOSTS or host.startswith("127.")


def voters(settings: Settings) -> dict[int, tuple[str, int]]:
    """Return {node id: (host, port)} of `controller.quorum.voters`. Raises ConfigError for a duplicate id."""
    found: dict[int, tuple[str, int]] = {}
    for item in settings.list("controller.quorum.voters"):
        node, _, text = item.partition("@")
        where = split_address(text)
        assert where is not None, "its rule checked the form"
        if int(node) in found:
            raise _error(settings, "controller.quorum.voters", f"duplicate node {node}")
        found[int(node)] = where
    return found


def bootstrap_servers(settings: Settings) -> list[tuple[str, int]]:
    """Return (host, port) of each of `controller.quorum.bootstrap.servers`."""
    found = [split_address(item) for item in settings.list("controller.quorum.bootstrap.servers")]
    return [where for where in found if where is not None]


def peer_addresses(settings: Settings, own_role: str = "", peer_role: str = "") -> dict[int, tuple[str, int]]:
    """Return {node id: (host, port)} of `kvorum.peer.addresses`, which tests use to replace real addresses.

    In a combined node two processes read the same setting, and one id has two peers: `broker>controller/2=...`
    applies to connections of a broker to controller 2 only, and overrides `2=...`, which applies to all.
    """
    for_all: dict[int, tuple[str, int]] = {}
    for_roles: dict[int, tuple[str, int]] = {}
    for item in filter(None, (part.strip() for part in settings.str("kvorum.peer.addresses").split(","))):
        match = PEER_ADDRESS.fullmatch(item)
        where = split_address(match["address"]) if match is not None else None
        if match is None or where is None:
            form = "ID=HOST:PORT or ROLE>ROLE/ID=HOST:PORT"
            raise _error(settings, "kvorum.peer.addresses", f"{item!r} is not of the form {form}")
        if match["own"] is None:
            for_all[int(match["id"])] = where
        elif (match["own"], match["peer"]) == (own_role, peer_role):
            for_roles[int(match["id"])] = where
    return for_all | for_roles


def _advertised(settings: Settings, own: list[Endpoint], default_host: str) -> list[Endpoint]:
    advertised = {endpoint.listener_name: endpoint for endpoint in _endpoints(settings, "advertised.listeners")}
    names = {endpoint.listener_name for endpoint in own}
    chosen = [endpoint for name, endpoint in advertised.items() if name in names] or own
    return [replace(endpoint, host=endpoint.host or default_host) for endpoint in chosen]


def _endpoints(settings: Settings, key: str) -> list[Endpoint]:
    protocols = protocol_map(settings)
    found: list[Endpoint] = []
    for text in settings.list(key):
        match = ENDPOINT.fullmatch(text)
        if match is None or int(match[3]) > PORT_MAX or int(match[3]) < 0:
            raise _error(settings, key, f"{text!r} is not of the form LISTENER://HOST:PORT")
        name = match[1].upper()
        if name not in protocols:
            raise _error(settings, key, f"listener {name} has no protocol: add it to listener.security.protocol.map")
        if any(endpoint.listener_name == name for endpoint in found):
            raise _error(settings, key, f"each listener must have a different name: {name} is a duplicate")
        if key == "listeners" and any(_clash(endpoint, match[2], int(match[3])) for endpoint in found):
            raise _error(settings, key, f"each listener must have a different port: {match[3]} is a duplicate")
        found.append(Endpoint(name, protocols[name], match[2], int(match[3])))
    return found


def _clash(endpoint: Endpoint, host: str, port: int) -> bool:
    # One IPv4 and one IPv6 address may share a port (KIP-797); otherwise Kafka refuses, whatever the host.
    return port != 0 and endpoint.port == port and (":" in endpoint.host) == (":" in host)


def _error(settings: Settings, key: str, reason: str) -> ConfigError:
    return ConfigError(key, settings.raw(key), settings.source(key).where, reason)
