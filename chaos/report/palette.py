"""Colours with the same meaning everywhere on the page.

Dark letters are readable on all of them, in both themes.

Red means only trouble: no node and no fault family except kills has it.
"""

from typing import Final

FAULTS: Final[dict[str, str]] = {
    # Death, from red to rose.
    "kill": "#f87171",
    "kill_all": "#ef4444",
    "terminate": "#fca5a5",
    "restart": "#fecaca",
    "resign": "#fbb8b8",
    # Sleep.
    "pause": "#c084fc",
    # Lost data.
    "wipe": "#fb923c",
    "lose_tail": "#fdba74",
    "flip_bits": "#f59e0b",
    "replace_directory": "#f9a663",
    "drop_directory": "#f8b47e",
    "dir_lost": "#f9a663",
    "power": "#f79a4b",
    "power_all": "#ea8032",
    # A failed disk.
    "disk_full": "#d6a45c",
    "read_only": "#c9b38c",
    "disk_error": "#bfa06a",
    "fail_directory": "#cfae78",
    "dir_broken": "#cfae78",
    "dir_return": "#d9c39a",
    # The clock.
    "clock_jump": "#f472b6",
    "clock": "#f78dc5",
    # Links that carry nothing.
    "refuse": "#60a5fa",
    "black_hole": "#3b9cf0",
    "cut": "#7db5fb",
    "cut_one_way": "#93c5fd",
    "isolate": "#5b9bf5",
    "drop": "#a5c8ff",
    "drop_syn": "#8ab4f8",
    "reset": "#79a7e8",
    # Links that carry badly.
    "freeze": "#2dd4bf",
    "latency": "#5eead4",
    "slow": "#67e8d9",
    "bandwidth": "#4fc3b0",
    "slicer": "#86e0d2",
    "packet_loss": "#38c7c0",
    "lose_responses": "#22d3ee",
    "lose_requests": "#67e8f9",
    # From inside.
    "error_injection": "#a3e635",
    "failpoint": "#bef264",
    "refuse_inside": "#84cc16",
}
"""By kind; kinds of one family are of one hue."""

OTHER_FAULT: Final = "#a8b3c4"

LINKS: Final = frozenset(
    {
        *("refuse", "black_hole", "cut", "cut_one_way", "drop", "drop_syn", "reset", "freeze", "latency", "slow"),
        *("bandwidth", "slicer", "packet_loss", "lose_responses", "lose_requests"),
    }
)
"""Faults whose two targets are the ends of a link."""

NODES: Final = ("#8ab4f8", "#fbbf6b", "#6ed3b8", "#c4b5fd", "#b9d96c", "#f5a8d0", "#d9bd94", "#9fdcf0", "#b8c0cc")
"""By node id, in a circle."""

EPOCHS: Final = ("#b4bcc8", "#d3d8e0")
"""In turn: a controller epoch is of no node that is known."""

ISR_FULL: Final = "#5fbf8f"
ISR_SHORT: Final = "#f3c14b"
ISR_UNDER: Final = "#f2777a"
"""All replicas in sync; fewer; fewer than min.insync.replicas, where acks=all is refused."""


def fault(kind: str) -> str:
    """Return the colour of a fault kind."""
    return FAULTS.get(kind.replace("-", "_"), OTHER_FAULT)


def node(id: int) -> str:
    """Return the colour of a node."""
    return NODES[(id - 1) % len(NODES)]
