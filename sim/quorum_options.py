"""Options of a quorum simulation, drawn from its seed, with fixed parts where voters change."""

import random
from dataclasses import dataclass, field
from typing import Final

from kvorum.quorum.raft.replicated import RaftMetadataLog
from kvorum.quorum.raft.settings import RaftSettings
from sim.network import NetworkOptions

SEGMENT_BYTES: Final = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of a run; `drawn` draws them from the seed."""

    voters: int = 3
    """Number of nodes; in a static quorum all of them vote."""
    initial: int = 0
    """Number of initial voters of a dynamic quorum (KIP-853), the others follow as observers; 0: a static one."""
    static: int = 0
    """Number of voters of a static quorum that is upgraded to a dynamic one, the others follow; 0: all are its voters.
    """
    moves: bool = False
    """Controllers return with other addresses, and report them; in a dynamic quorum, or when it becomes one."""
    duration_s: float = 12.0
    known_directories: bool = True
    wipes: bool = True
    network: NetworkOptions = field(default_factory=NetworkOptions)
    append_every_s: float = 0.02
    fault_every_s: float = 0.5
    settings: RaftSettings = field(default_factory=RaftSettings)
    log_class: type[RaftMetadataLog] = RaftMetadataLog

    @classmethod
    def draw(cls, rng: random.Random, **fixed: object) -> "Options":
        """Draw the free options (swarm testing: each seed has its own mixture); `snapshots=False`: none."""
        snapshots = fixed.pop("snapshots", True)
        wild = rng.random() < 0.35
        network = NetworkOptions(
            delay_max_s=rng.choice((0.001, 0.003, 0.03)),
            slow=rng.choice((0.0, 0.01, 0.1)),
            loss=rng.choice((0.0, 0.02)) if wild else 0.0,
            duplicate=rng.choice((0.0, 0.05)) if wild else 0.0,
            reorder=rng.choice((0.02, 0.2)) if wild else 0.0,
        )
        settings = RaftSettings(
            election_timeout_min_s=0.3,
            election_timeout_max_s=0.6,
            heartbeat_s=0.09,
            check_quorum_timeout_s=0.5,
            append_bytes=rng.choice((200, 2000, 1 << 20)),
            window_count=rng.choice((2, 64)),
            chunk_bytes=rng.choice((64, 1024)),
            apply_slice=rng.choice((1, 256)),
            snapshot_bytes=max(rng.choice((1500, 6000, 1 << 30)), 0 if snapshots else 1 << 40),
            retained_entries=rng.choice((0, 5, 50)),
            segment_bytes=SEGMENT_BYTES,
        )
        values: dict[str, object] = {
            "voters": rng.choice((1, 3, 3, 3, 3, 5)),
            "known_directories": rng.random() < 0.5,
            "wipes": rng.random() < 0.6,
            "network": network,
            "append_every_s": rng.choice((0.01, 0.03)),
            "fault_every_s": rng.choice((0.3, 0.6, 1.5)),
            "settings": settings,
        }
        return cls(**{**values, **fixed})  # type: ignore[arg-type]  # a mapping by name


def membership_options(seed: int) -> dict[str, object]:
    """Return a dynamic quorum's options: three to five nodes, one to three of which vote at first."""
    return {"voters": 3 + seed % 3, "initial": 1 + seed % 3, "known_directories": True}


def upgrade_options(seed: int) -> dict[str, object]:
    """Return a static quorum's that is upgraded: three to five nodes, one to three of which are its voters."""
    return {"voters": 3 + seed % 3, "static": (1, 3, 3, 2)[seed % 4], "known_directories": seed % 5 < 3}


def address_change_options(seed: int) -> dict[str, object]:
    """Return one or the other, or three initial voters; their controllers may also restart with other addresses."""
    others = (upgrade_options, membership_options)[seed % 2](seed)
    most = {"voters": 3 + seed % 3, "initial": 3, "known_directories": True}
    return {**(others if seed % 4 < 2 else most), "moves": True}


def of_voters(seed: int) -> dict[str, object]:
    """Return the fixed options of a seed whose voters change."""
    return (membership_options, upgrade_options, address_change_options)[seed % 3](seed // 3)
