"""Configuration of a simulated node, by the options of its run. Sans-IO."""

from typing import Final

from kvorum.runtime.config import Settings
from sim.client import PORT
from sim.coordination import configs_of
from sim.machine import BROKER, CONTROLLER, address_of
from sim.plan import Options, machines_of
from sim.racks import rack_configs

CONTROLLER_PORT: Final = 9093


def settings_of(options: Options, node_id: int, roles: list[str], log_dirs: list[str] | None = None) -> Settings:
    """Return a node's configuration; `log_dirs`: other directories than all."""
    nodes = machines_of(options)
    quorum = [node for node, found in nodes.items() if CONTROLLER in found]
    address = address_of(node_id)
    listeners = {BROKER: f"PLAINTEXT://{address}:{PORT}", CONTROLLER: f"CONTROLLER://{address}:{CONTROLLER_PORT}"}
    log_dirs = log_dirs or [f"/data-{number}" for number in range(1, options.log_dirs + 1)]
    config: dict[str, object] = {
        "node.id": node_id,
        "process.roles": ",".join(roles),
        "listeners": ",".join(listeners[role] for role in roles),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(f"{node}@{address_of(node)}:{CONTROLLER_PORT}" for node in quorum),
        "metadata.log.dir": "/meta",
        "min.insync.replicas": options.min_isr,
        "unclean.leader.election.enable": options.unclean,
        "unclean.leader.election.interval.ms": 1_000,
        "kvorum.fast.fencing": "auto" if options.fast_fencing else "off",
        "broker.session.timeout.ms": options.session_timeout_ms,
        "broker.heartbeat.interval.ms": options.heartbeat_interval_ms,
        "controller.quorum.election.timeout.ms": options.election_timeout_ms,
        "controller.quorum.fetch.timeout.ms": 2 * options.election_timeout_ms,
        "metadata.log.max.record.bytes.between.snapshots": options.snapshot_bytes,
        "replica.lag.time.max.ms": options.lag_time_ms,
        "replica.fetch.wait.max.ms": options.fetch_wait_ms,
        "replica.fetch.backoff.ms": 100,
        "replica.socket.timeout.ms": 2_000,
        "replica.high.watermark.checkpoint.interval.ms": 1_000,
        "log.flush.offset.checkpoint.interval.ms": 2_000,
        "log.roll.ms": options.roll_ms,
        "log.retention.check.interval.ms": options.retention_check_ms,
        "log.flush.start.offset.checkpoint.interval.ms": options.checkpoint_starts_ms,
        "leader.imbalance.check.interval.seconds": 3,
        "kvorum.decommission.partitions.max": 2,
        "auto.create.topics.enable": False,
        "log.dirs": ",".join(log_dirs),
        **configs_of(options),
    }
    if BROKER in roles:
        config |= rack_configs(node_id, options)
    if options.flush:
        config["log.flush.interval.messages"] = 1
    if "broker" not in roles:
        for key in ("log.dirs", "auto.create.topics.enable"):
            del config[key]
    return Settings.of(config)
