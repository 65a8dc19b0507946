"""Plan of a simulated cluster's run, drawn from its seed: options, and the schedule of faults. Sans-IO.

Everything is drawn before the run begins and is plain data: so a run can be described, saved as JSON, replayed, and
shrunk by leaving faults out, which changes nothing else about it. Swarm testing: each seed draws its own sizes,
timeouts, load and its own few kinds of faults (Groce and others, 2012).
"""

from random import Random
from typing import Final

import msgspec

ACTIVE_CONTROLLER: Final = "active"
"""A target: the controller that is active when the fault comes."""
LEADER: Final = "leader"
"""A target, with a partition behind a colon: "leader:orders-0"."""
FOLLOWER: Final = "follower"
"""A target, which one of the replicas that do not lead, and the partition: "follower2:orders-0"."""
CLIENTS: Final = "clients"
BROKERS: Final = "brokers"
"""Other ends of links: all clients, all other brokers."""

KINDS: Final = (
    *("kill", "kill", "terminate", "power", "power", "pause", "pause", "cut", "cut", "isolate", "isolate", "slow"),
    *("reset", "resign", "kill_all", "power_all", "disk_error", "disk_full", "wipe", "clock"),
)
"""The kinds from which a seed draws; repeated kinds are more likely."""
LOSSY_KINDS: Final = frozenset({"power", "power_all", "wipe"})
QUIET_START_S: Final = 2.0


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fault. `at` and `length` in seconds from the start of the load; `target` and `other` are node ids as text,
    ACTIVE_CONTROLLER, LEADER:partition, FOLLOWER and its number:partition; `other` also CLIENTS or BROKERS."""

    at: float
    kind: str
    target: str = ""
    length: float = 0.0
    role: str = "both"
    """The node's process: broker, controller or both."""
    other: str = ""
    ways: str = "both"
    """Direction of a cut, an isolation or a slow link, from the target's view: in, out or both."""
    amount: float = 0.0
    """Seconds of delay, seconds until frozen connections break (0: they do not), hours of a clock's jump."""
    detail: str = ""
    """The disk's operation that fails; "silent" for power that goes without a reset; the place of a moment."""


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """Clients' load: (acks, idempotent) of each producer, and seconds between the operations of one."""

    producers: list[tuple[int, bool]]
    consumers: int
    every_s: float
    in_flight: int
    admin_every_s: float
    burst_s: float = 0.0
    """Producers send for about this time, then pause as long; 0: all the time.

    Elections without a write in between show what leans on writes.
    """


class Coordination(msgspec.Struct, frozen=True, kw_only=True):
    """Groups and transactions of a run (see sim.coordination); plans from before they were there have none.

    `feeders` send transactions to SOURCE, `workers` make a record of SINK of each, in transactions with its offset, as
    one group; `watchers` read SOURCE and commit offsets, as another.
    """

    partitions: int
    """Partitions of SOURCE and of SINK, each."""
    offsets_partitions: int
    transactions_partitions: int
    feeders: int
    workers: int
    watchers: int
    consumer_protocol: bool
    """Members use KIP-848's protocol, not the classic one."""
    second_version: bool
    """Producers use transaction.version 2; else they add partitions and offsets themselves, as older ones do."""
    session_ms: int
    transaction_timeout_ms: int
    abort_share: float
    life_s: float
    """Mean lifetime of a client until it dies or leaves and is replaced."""
    every_s: float
    heeds_levels: bool = False
    """Producers read the level of transaction.version before each transaction and stay within it."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes, configs and load of a run. Times are in milliseconds if the name says so."""

    controllers: int
    brokers: int
    combined: bool
    partitions: int
    replication_factor: int
    min_isr: int
    elr: bool
    unclean: bool
    fast_fencing: bool
    flush: bool
    """Every broker syncs each append before it answers (flush.messages=1)."""
    log_dirs: int
    session_timeout_ms: int
    heartbeat_interval_ms: int
    lag_time_ms: int
    election_timeout_ms: int
    fetch_wait_ms: int
    roll_ms: int
    snapshot_bytes: int
    known_directories: bool
    delay_max_s: float
    fault_kinds: list[str]
    fault_every_s: float
    chase: float = 0.0
    """Probability that the same fault follows at once."""
    retention_check_ms: int = 300_000
    checkpoint_starts_ms: int = 60_000
    """Interval of persisting log start offsets."""
    reads_files: bool = False
    """Brokers keep no log ends in memory: reads return the file's content at the time of the read."""
    request_cost_ms: float = 0.0
    """Cost of each request for quotas of the loop's time; brokers use no fast path for Produce then."""
    older_admin: bool = False
    """The admin uses versions without THROTTLING_QUOTA_EXCEEDED."""
    probes_quotas: bool = False
    """Quotas are tried at the end."""
    racks: int = 0
    """Number of racks of brokers and clients; 0: none."""
    load: Load
    coordination: Coordination | None = None

    @property
    def patience_s(self) -> float:
        """The longest timeout after which a node counts as failed or lagging."""
        return (self.session_timeout_ms + self.lag_time_ms) / 1000

    def text(self) -> str:
        """Return the important options in one line."""
        layout = "combined" if self.combined else "separate"
        flags = [name for name in ("elr", "unclean", "fast_fencing", "flush") if getattr(self, name)] or ["no extras"]
        return (
            f"{self.controllers} controllers and {self.brokers} brokers ({layout}), {self.partitions} partitions, "
            f"RF {self.replication_factor}, min ISR {self.min_isr}, {', '.join(flags)}; "
            f"session {self.session_timeout_ms} ms, lag {self.lag_time_ms} ms, "
            f"faults about every {self.fault_every_s} s of {', '.join(sorted(set(self.fault_kinds)))}"
        )


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A run that replays exactly."""

    seed: int
    seconds: float
    options: Options
    faults: list[Fault]


def draw_options(rng: Random) -> Options:
    """Draw sizes, configs, load and the kinds of faults."""
    combined = rng.random() < 0.5
    controllers = rng.choice((1, 3, 3, 3, 3, 5))
    brokers = rng.choice((1, 2, 3, 3, 3, 3, 4, 5))
    rf = rng.choice((brokers, min(brokers, 3), min(brokers, 3), min(brokers, 2)))
    min_isr = rng.choice((1, min(2, rf), min(2, rf), min(2, rf), min(3, rf)))
    session = rng.choice((600, 1000, 2000))
    lossy = rng.random() < 0.5
    hat = [kind for kind in KINDS if lossy or kind not in LOSSY_KINDS]
    kinds = sorted(rng.sample(hat, rng.randint(2, 9)))
    producers = [(rng.choice((-1, -1, -1, -1, 1, 0)), rng.random() < 0.5) for _ in range(rng.randint(1, 3))]
    return Options(
        controllers=controllers,
        brokers=brokers,
        combined=combined,
        partitions=rng.choice((1, 1, 2, 3, 4)),
        replication_factor=rf,
        min_isr=min_isr,
        elr=rng.random() < 0.5,
        unclean=rng.random() < 0.2,
        fast_fencing=rng.random() < 0.6,
        flush=rng.random() < 0.15,
        log_dirs=rng.choice((1, 1, 2)),
        session_timeout_ms=session,
        heartbeat_interval_ms=session // rng.choice((3, 5)),
        lag_time_ms=rng.choice((500, 1000, 2500)),
        election_timeout_ms=rng.choice((400, 700)),
        fetch_wait_ms=rng.choice((50, 200, 400)),
        roll_ms=rng.choice((3_000, 20_000, 1_000_000)),
        snapshot_bytes=rng.choice((4_000, 20_000, 20_000_000)),
        known_directories=rng.random() < 0.8,
        delay_max_s=rng.choice((0.001, 0.001, 0.005, 0.03)),
        fault_kinds=kinds,
        fault_every_s=rng.choice((0.7, 1.5, 3.0)),
        chase=rng.choice((0.0, 0.1, 0.5)),
        load=Load(
            producers=[(acks, idempotent and acks == -1) for acks, idempotent in producers],
            consumers=rng.choice((1, 1, 2)),
            every_s=rng.choice((0.05, 0.1, 0.3)),
            in_flight=rng.choice((1, 2, 4)),
            admin_every_s=rng.choice((2.0, 5.0, 1000.0)),
            burst_s=rng.choice((0.0, 0.0, 0.3, 1.0, 3.0)),
        ),
    )


def machines_of(options: Options) -> dict[int, list[str]]:
    """Return the nodes and their roles: brokers come first, controllers share their nodes or follow."""
    nodes: dict[int, list[str]] = {node: ["broker"] for node in range(1, options.brokers + 1)}
    first = 1 if options.combined else options.brokers + 1
    for node in range(first, first + options.controllers):
        nodes.setdefault(node, []).append("controller")
    return nodes


def draw_faults(rng: Random, options: Options, seconds: float) -> list[Fault]:
    """Draw the schedule: bursts and pauses, each fault with its end."""
    nodes = machines_of(options)
    faults: list[Fault] = []
    at = QUIET_START_S
    while True:
        at += options.fault_every_s * (0.1 + 1.8 * rng.random())
        if rng.random() < 0.1:
            at += 3 * options.fault_every_s
        if at >= seconds:
            return faults
        fault = draw_fault(rng, options, nodes, round(at, 3))
        faults.append(fault)
        while rng.random() < options.chase:
            # Again, before anything has settled: leaders that die one after another, elections without a write.
            at += rng.choice((0.02, 0.1, 0.4)) * (0.2 + 1.6 * rng.random())
            if at < seconds:
                faults.append(msgspec.structs.replace(fault, at=round(at, 3)))


def draw_fault(rng: Random, options: Options, nodes: dict[int, list[str]], at: float) -> Fault:
    """Draw one fault of the kinds in this run."""
    kind = rng.choice(options.fault_kinds)
    length = round(rng.choice((0.05, 0.3, 1.0, 1.0, 3.0, 6.0)) * (0.3 + 1.4 * rng.random()), 3)
    drawn_target = rng.random()
    if drawn_target < 0.35:
        target = f"{LEADER}:orders-{rng.randrange(options.partitions)}"
    elif drawn_target < 0.5:
        target = ACTIVE_CONTROLLER
    else:
        target = str(rng.choice(sorted(nodes)))
    return Fault(
        at=at,
        kind=kind,
        target=target,
        length=length,
        role=rng.choice(("broker", "broker", "controller", "both")),
        other=rng.choice([*map(str, sorted(nodes)), "clients"]),
        ways=rng.choice(("in", "out", "both", "both")),
        amount=round(rng.choice((0.02, 0.2, 1.0)) * (0.5 + rng.random()), 3),
        detail=rng.choice(("sync", "pwrite", "silent", "silent")),
    )


def to_json(plan: Plan) -> bytes:
    """Write a plan, readable for people."""
    return msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n"


def from_json(data: bytes) -> Plan:
    """Read a plan. Raises msgspec.ValidationError."""
    return msgspec.json.decode(data, type=Plan)
