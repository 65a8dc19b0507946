"""Checks between the keys of one node's configuration, before its start.

Sans-IO. Roles, listeners, exposure and classes are checked here, rules between numbers in config_relations. Each check
raises ConfigError that names the key to change; unwise configs are returned as warnings.
"""

from kvorum.runtime.config import Settings
from kvorum.runtime.config_defs import BROKER, KEPT_IN_METADATA
from kvorum.runtime.config_relations import RELATIONS, refuse
from kvorum.runtime.listeners import (
    ANY_ADDRESS,
    Endpoint,
    SecurityProtocol,
    admin_listeners,
    advertised_controller_listeners,
    advertised_listeners,
    bootstrap_servers,
    broker_listeners,
    chaos_listener,
    connect_urls,
    controller_listener_names,
    controller_listeners,
    inter_broker_listener_name,
    is_loopback,
    listeners,
    metrics_listener,
    peer_addresses,
    protocol_map,
    voters,
)

CHAOS_TOKEN_LENGTH_MIN = 16
ALLOW_PLAINTEXT_CONTROLLERS = "kvorum.allow.plaintext.controllers"
ASSIGNORS = ("uniform", "range")
"""Supported classes, by Kafka's names. Own classes cannot be loaded."""


RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"
REPLICA_SELECTORS = (RACK_AWARE_SELECTOR, LEADER_SELECTOR)
"""Replica selectors for consumers, by Kafka's names. The second is KIP-392's default."""


def check_node(settings: Settings) -> list[str]:
    """Check all that a node needs before it starts; return warnings. Raises ConfigError at the first that cannot be."""
    check_identity(settings)
    check_quorum(settings)
    check_listeners(settings)
    if "broker" in settings.list("process.roles"):
        check_broker_listeners(settings)
    check_early_listeners(settings)
    check_exposure(settings)
    for relation in RELATIONS:
        relation.check(settings)
    check_assignors(settings)
    check_plugins(settings)
    check_dynamic_only(settings)
    return warnings_of(settings)


def check_dynamic_only(settings: Settings) -> None:
    """Reject keys that exist in the metadata only: a file's value would be unknown to the other nodes."""
    for key in sorted(KEPT_IN_METADATA & settings.explicit().keys()):
        if settings.raw(key) == BROKER[key].default:
            continue
        raise refuse(settings, key, "can be set in the running cluster only (IncrementalAlterConfigs of the broker)")


def check_identity(settings: Settings) -> None:
    """Roles, node id, log directories."""
    if not settings.list("process.roles"):
        raise refuse(settings, "process.roles", "must be broker, controller or broker,controller")
    if settings.int("node.id") < 0:
        raise refuse(settings, "node.id", "must be set to a unique number of at least 0")
    if settings.int("broker.id") != settings.int("node.id"):
        raise refuse(settings, "broker.id", f"must equal node.id ({settings.int('node.id')}); it can be omitted")
    if not all(settings.list("log.dirs")):
        raise refuse(settings, "log.dirs", "must contain at least one log directory and no empty one")


def check_quorum(settings: Settings) -> None:
    """Check the controllers: their addresses, and whether this node is correctly one of them or not."""
    node, known = settings.int("node.id"), voters(settings)
    if not known and not settings.list("controller.quorum.bootstrap.servers"):
        raise refuse(
            settings,
            "controller.quorum.voters",
            "set the controllers as ID@HOST:PORT,..., or set controller.quorum.bootstrap.servers",
        )
    if any(host in ANY_ADDRESS for host, _ in known.values()):
        raise refuse(settings, "controller.quorum.voters", "0.0.0.0 is not an address that other nodes can connect to")
    remote = [host for host, _ in known.values() if not is_loopback(host)]
    if remote and len(remote) < len(known):
        local = next(f"{voter}@{host}" for voter, (host, _) in known.items() if is_loopback(host))
        reason = f"{local} is a loopback address, to which {remote[0]} cannot connect; use an address of its machine"
        raise refuse(settings, "controller.quorum.voters", reason)
    controller = "controller" in settings.list("process.roles")
    if controller and known and node not in known:
        raise refuse(settings, "controller.quorum.voters", f"node {node} is a controller and must be included")
    if not controller and node in known:
        raise refuse(settings, "controller.quorum.voters", f"node {node} is only a broker and must not be included")
    names = controller_listener_names(settings)
    if not names:
        raise refuse(settings, "controller.listener.names", "must contain at least one listener, such as CONTROLLER")
    missing = [name for name in names if name not in protocol_map(settings)]
    if missing:
        raise refuse(
            settings, "controller.listener.names", f"{missing[0]} has no protocol in listener.security.protocol.map"
        )


def check_listeners(settings: Settings) -> None:
    """Listeners that a node of these roles must and must not have."""
    roles, names = settings.list("process.roles"), controller_listener_names(settings)
    every = {endpoint.listener_name for endpoint in listeners(settings)}
    if "controller" not in roles:
        if every & {*names}:
            raise refuse(
                settings, "listeners", "a node that is only a broker must not listen on controller.listener.names"
            )
        return
    absent = [name for name in names if name not in every]
    if absent:
        raise refuse(settings, "listeners", f"a controller must listen on {absent[0]} of controller.listener.names")
    if "broker" not in roles and every - {*names}:
        raise refuse(settings, "listeners", "a node that is only a controller may have only controller.listener.names")
    if any(endpoint.host in ANY_ADDRESS for endpoint in advertised_controller_listeners(settings)):
        raise refuse(settings, "advertised.listeners", "0.0.0.0 is not an address that other nodes can connect to")


def check_early_listeners(settings: Settings) -> None:
    """Listeners that open early are listeners of this node or of controllers."""
    known = {*(endpoint.listener_name for endpoint in listeners(settings)), *controller_listener_names(settings)}
    for name in settings.list("early.start.listeners"):
        if name.upper() not in known:
            reason = f"{name} is neither in listeners nor in controller.listener.names"
            raise refuse(settings, "early.start.listeners", reason)


def check_broker_listeners(settings: Settings) -> None:
    """Check a broker's own, advertised and inter-broker listeners."""
    own = [endpoint.listener_name for endpoint in broker_listeners(settings)]
    if not own:
        raise refuse(settings, "listeners", "a broker needs a listener that is not in controller.listener.names")
    known = {*own, *controller_listener_names(settings)}
    advertised_names = [text.partition("://")[0].strip().upper() for text in settings.list("advertised.listeners")]
    unknown = [name for name in advertised_names if name not in known]
    if unknown:
        raise refuse(
            settings,
            "advertised.listeners",
            f"{unknown[0]} is not in listeners ({', '.join(own)})",
        )
    advertised = advertised_listeners(settings)
    if any(endpoint.host in ANY_ADDRESS for endpoint in advertised):
        raise refuse(
            settings,
            "advertised.listeners" if advertised_names else "listeners",
            "0.0.0.0 is not an address that clients can connect to: set advertised.listeners",
        )
    name = inter_broker_listener_name(settings)
    if name not in {endpoint.listener_name for endpoint in advertised}:
        choice = ", ".join(endpoint.listener_name for endpoint in advertised)
        raise refuse(
            settings, "inter.broker.listener.name", f"{name} is not in advertised.listeners; choose one of {choice}"
        )


def check_exposure(settings: Settings) -> None:
    """Without encryption, permit connections from this machine only: controllers and the admin API."""
    peer_addresses(settings)
    for endpoint in exposed_controllers(settings):
        if not settings.bool(ALLOW_PLAINTEXT_CONTROLLERS):
            raise refuse(
                settings,
                "listeners",
                f"{endpoint.url}: a controller without encryption may listen on loopback only, such as "
                f"{endpoint.listener_name}://127.0.0.1:{endpoint.port}; give the listener the protocol SSL or SASL_SSL"
                f" in listener.security.protocol.map, or set {ALLOW_PLAINTEXT_CONTROLLERS}=true in a trusted network",
            )
    for http in admin_listeners(settings):
        if not is_loopback(http.host) and not has_http_authentication(settings):
            text = f"{http.url}: only loopback is permitted without kvorum.admin.roles or kvorum.admin.tokens.file"
            raise refuse(settings, "admin.listeners", text)
    connect_urls(settings)
    for role in settings.list("process.roles"):
        metrics_listener(settings, role)
        if chaos_listener(settings, role) is not None:
            check_chaos_token(settings)


def has_http_authentication(settings: Settings) -> bool:
    """Return whether HTTP clients must authenticate."""
    return any(settings.optional_str(key) is not None for key in ("kvorum.admin.roles", "kvorum.admin.tokens.file"))


def exposed_controllers(settings: Settings) -> list[Endpoint]:
    """Return the unencrypted listeners of this node's controller that other machines can reach. Raises ConfigError."""
    if "controller" not in settings.list("process.roles"):
        return []
    unencrypted = (SecurityProtocol.PLAINTEXT, SecurityProtocol.SASL_PLAINTEXT)
    found = [each for each in controller_listeners(settings) if each.security_protocol in unencrypted]
    return [each for each in found if not is_loopback(each.host)]


def local_brokers(settings: Settings) -> list[str]:
    """Return the warning about a broker that the other machines of its cluster cannot reach."""
    quorum = [*voters(settings).values(), *bootstrap_servers(settings)]
    if "broker" not in settings.list("process.roles") or all(is_loopback(host) for host, _ in quorum):
        return []
    name = inter_broker_listener_name(settings)
    return [
        f"advertised.listeners: brokers on other machines cannot connect to {endpoint.url}"
        for endpoint in advertised_listeners(settings)
        if endpoint.listener_name == name and is_loopback(endpoint.host)
    ]


def check_chaos_token(settings: Settings) -> None:
    """Require a secret for fault injection, in one of two configs."""
    token = settings.optional_str("kvorum.chaos.token")
    if (token is None) == (settings.optional_str("kvorum.chaos.token.file") is None):
        raise refuse(settings, "kvorum.chaos.listener", "requires either kvorum.chaos.token or kvorum.chaos.token.file")
    if token is not None and len(token) < CHAOS_TOKEN_LENGTH_MIN:
        raise refuse(
            settings,
            "kvorum.chaos.listener",
            f"kvorum.chaos.token must have at least {CHAOS_TOKEN_LENGTH_MIN} characters",
        )


def check_assignors(settings: Settings) -> None:
    """Server-side assignors that exist here."""
    assignors = settings.list("group.consumer.assignors")
    if not assignors or not set(assignors) <= set(ASSIGNORS):
        raise refuse(settings, "group.consumer.assignors", f"must be a list of {', '.join(ASSIGNORS)}")


def check_plugins(settings: Settings) -> None:
    """Classes that are there under Kafka's names; no other can be loaded."""
    selector = settings.optional_str("replica.selector.class")
    if selector and selector not in REPLICA_SELECTORS:
        raise refuse(settings, "replica.selector.class", f"must be one of {', '.join(REPLICA_SELECTORS)}, or not set")


def warnings_of(settings: Settings) -> list[str]:
    """Return warnings about permitted but unwise settings."""
    found = local_brokers(settings)
    count = len(voters(settings))
    if count and count % 2 == 0:
        found.append(f"controller.quorum.voters: {count} controllers tolerate no more failures than {count - 1} do")
    if "broker" not in settings.list("process.roles") and settings.list("admin.listeners"):
        found.append("admin.listeners: this node is only a controller; the admin API needs a broker on the same node")
    if settings.str("kvorum.peer.addresses"):
        found.append("kvorum.peer.addresses replaces the addresses of peers; it is for tests only")
    found += [
        f"listeners: {endpoint.url} is not encrypted, and every host that reaches it can read and change the metadata"
        for endpoint in exposed_controllers(settings)
    ]
    if settings.optional_str("authorizer.class.name"):
        found.append("authorizer.class.name has no effect: ACLs are not supported, and every client may do everything")
    if settings.optional_str("kvorum.chaos.listener") is not None:
        found.append("kvorum.chaos.listener permits fault injection into this node; it is for tests only")
    return found
