"""Options of the HTTP interface's faults besides their targets; unknown fields are rejected.

The console makes its forms from their JSON schemas.
"""

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from kvorum.runtime.failpoints import DELAY_MS_MAX

PLACES: Final = {
    "writes": ("log.append.before", "journal.write.before"),
    "syncs": ("log.flush.sync.before", "log.sync.before", "journal.write.after"),
}
"""Position of a slow disk's delay: before a write or before a sync."""


class Strict(BaseModel):
    """Rejects unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True)


class NoOptions(Strict):
    """No options."""


class FlipOptions(Strict):
    """Position of the flipped bits."""

    what: str = Field(description='A partition ("orders-0"), or "journal" for the controller\'s')
    count: int = Field(1, ge=1, le=1000)
    position: int | None = Field(None, ge=0)


class SlowDiskOptions(Strict):
    """Delays of a disk, and the delayed operations."""

    delay_ms: int = Field(ge=1, le=DELAY_MS_MAX, description="Delay of each write and each sync")
    what: Literal["writes", "syncs", "both"] = Field(
        "both", description="Delayed writes block the whole process, delayed syncs do not"
    )

    def arm(self) -> str:
        """Return it as failpoints."""
        wanted = ("writes", "syncs") if self.what == "both" else (self.what,)
        return ";".join(f"{place}=delay:{self.delay_ms}" for kind in wanted for place in PLACES[kind])


class ClockOptions(Strict):
    """Offset of the clock."""

    offset_ms: int = Field(ge=-(10**12), le=10**12)


class ControllerOptions(Strict):
    """Processes of the active controller's node to kill."""

    process: bool = Field(
        False, description="Kill only the controller's process, which its supervisor restarts at once"
    )


class BelowMinOptions(Strict):
    """Position at which followers stop."""

    how: Literal["pause", "kill"] = Field(
        "pause",
        description="Pause the brokers (they leave the ISR when their sessions expire) or kill the nodes",
    )


class CutOptions(Strict):
    """Kind of a cut."""

    kind: Literal["black_hole", "refuse", "freeze", "drop"] | None = None


class IsolateOptions(CutOptions):
    """Peers to isolate from."""

    clients: bool = True


class SlowOptions(Strict):
    """Delay."""

    latency_ms: int = Field(ge=1, le=600_000)
    jitter_ms: int = Field(0, ge=0, le=600_000)


class LinkOptions(Strict):
    """Any fault of links by its own name and attributes."""

    kind: str
    one_way: bool = False
    share: float = Field(1.0, gt=0, le=1)
    attributes: dict[str, int] = Field(default_factory=dict)


class InsideOptions(Strict):
    """Selection of requests."""

    api: str | int
    count: int | None = Field(None, ge=1, description="Number of requests; unset: until the fault ends")
    client_id: str | None = None
    listener: str | None = None


class ErrorOptions(InsideOptions):
    """Error response to inject."""

    code: str | int
    at_top: bool = False


class DelayOptions(InsideOptions):
    """Delay of the responses."""

    delay_ms: int = Field(ge=1, le=600_000)


class DropOptions(InsideOptions):
    """Treatment of unanswered requests."""

    silent: bool = False
    handled: bool = False


class RefuseOptions(Strict):
    """The address to close."""

    listener: str
    cut: bool = False


class FailpointOptions(Strict):
    """Failpoint to arm."""

    arm: str
