"""Options of faults besides their targets, with units and bounds; unknown ones are rejected.

HTTP, scenario files and the console's forms use these models. `shorter`: another spelling of an option in a step.
"""

from datetime import timedelta
from typing import Any, Final, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from kvorum.runtime.failpoints import DELAY_MS_MAX

LATENCY_MS_MAX: Final = 600_000
FAILPOINTS: Final = {
    "writes": ("log.append.before", "journal.write.before"),
    "syncs": ("log.flush.sync.before", "log.sync.before", "journal.write.after"),
}
"""Failpoints of a slow disk: before a write, or before a sync."""


def shorter(name: str, in_steps: str) -> AliasChoices:
    """Return both spellings of an option."""
    return AliasChoices(name, in_steps)


class FaultOptions(BaseModel):
    """Rejects unknown options and values of another type."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @classmethod
    def spellings(cls) -> dict[str, tuple[str, ...]]:
        """Return {option: all its spellings}."""
        found = {}
        for name, field in cls.model_fields.items():
            choices = field.validation_alias
            found[name] = tuple(map(str, choices.choices)) if isinstance(choices, AliasChoices) else (name,)
        return found


class NoOptions(FaultOptions):
    """No options."""


class FlipOptions(FaultOptions):
    """Position of the flipped bits."""

    what: str = Field(
        validation_alias=shorter("what", "partition"),
        description='A partition ("orders-0"), or "journal" for the controller\'s',
    )
    count: int = Field(1, ge=1, le=1000)
    position: int | None = Field(None, ge=0)


class SlowDiskOptions(FaultOptions):
    """Delays of a disk, and the delayed operations."""

    delay_ms: int = Field(ge=1, le=DELAY_MS_MAX, description="Delay of each write and each sync")
    what: Literal["writes", "syncs", "both"] = Field(
        "both", description="Delayed writes block the whole process, delayed syncs do not"
    )

    def failpoints(self) -> str:
        """Return the failpoints to arm."""
        wanted = ("writes", "syncs") if self.what == "both" else (self.what,)
        return ";".join(f"{name}=delay:{self.delay_ms}" for each in wanted for name in FAILPOINTS[each])

    def story(self) -> str:
        """Return the effect in words."""
        operation = {"both": "a write or a sync", "writes": "a write", "syncs": "a sync"}[self.what]
        return f"takes {self.delay_ms} ms longer for {operation}"


class ExpireOptions(FaultOptions):
    """Lifetime of a certificate."""

    lifetime_s: int = Field(3, ge=1, le=86_400, description="Seconds until it expires")

    @property
    def lifetime(self) -> timedelta:
        """Return it as a duration."""
        return timedelta(seconds=self.lifetime_s)


class DirectoryOptions(FaultOptions):
    """One of several log directories of a broker."""

    directory: int = Field(ge=2, description="Its number, from 1; the first one cannot fail")


class ClockOptions(FaultOptions):
    """Offset of the clock."""

    offset_ms: int = Field(validation_alias=shorter("offset_ms", "ms"), ge=-(10**12), le=10**12)


class ControllerOptions(FaultOptions):
    """Processes of the active controller's node to kill."""

    process: bool = Field(
        False, description="Kill only the controller's process, which its supervisor restarts at once"
    )


class BelowMinOptions(FaultOptions):
    """Position at which followers stop."""

    how: Literal["pause", "kill"] = Field(
        "pause",
        description="Pause the brokers (they leave the ISR when their sessions expire) or kill the nodes",
    )


class CutOptions(FaultOptions):
    """Kind of a cut."""

    kind: Literal["black_hole", "refuse", "freeze", "drop"] | None = Field(
        None, validation_alias=shorter("kind", "how")
    )


class IsolateOptions(CutOptions):
    """Peers to isolate from."""

    clients: bool = True


class LinkFaultOptions(FaultOptions):
    """Options of a fault of links by its name."""

    def toxic_attributes(self) -> dict[str, int]:
        """Return the attributes that differ from Toxiproxy's defaults."""
        return {}

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of LinkFaults.between."""
        return {**self.model_dump(include={"one_way", "share"}), "attributes": self.toxic_attributes()}


class SlowOptions(LinkFaultOptions):
    """Delay."""

    latency_ms: int = Field(validation_alias=shorter("latency_ms", "ms"), ge=1, le=LATENCY_MS_MAX)
    jitter_ms: int = Field(0, validation_alias=shorter("jitter_ms", "jitter"), ge=0, le=LATENCY_MS_MAX)

    def toxic_attributes(self) -> dict[str, int]:
        """Return the delay in Toxiproxy's terms."""
        return {"latency": self.latency_ms, "jitter": self.jitter_ms}


class ConnectionOptions(LinkFaultOptions):
    """Affected connections of a link."""

    one_way: bool = False
    share: float = Field(1.0, gt=0, le=1, description="Share of the connections; of the packets for packet_loss")


class LatencyOptions(SlowOptions, ConnectionOptions):
    """Delay of some connections, or of one direction."""


class BandwidthOptions(ConnectionOptions):
    """Limit of a link."""

    kb_per_second: int = Field(1, validation_alias=shorter("kb_per_second", "rate"), ge=1, description="KB per second")

    def toxic_attributes(self) -> dict[str, int]:
        """Return the limit in Toxiproxy's terms."""
        return {"rate": self.kb_per_second}


class LinkOptions(LinkFaultOptions):
    """Any fault of links by its own name and attributes."""

    kind: str
    one_way: bool = False
    share: float = Field(1.0, gt=0, le=1)
    attributes: dict[str, int] = Field(default_factory=dict)

    def toxic_attributes(self) -> dict[str, int]:
        """Return the attributes as they are."""
        return self.attributes


class InsideOptions(FaultOptions):
    """Selection of requests."""

    api: str | int
    count: int | None = Field(None, ge=1, description="Number of requests; unset: until the fault ends")
    client_id: str | None = None
    listener: str | None = None

    def rule(self) -> dict[str, Any]:
        """Return the options except the API."""
        return self.model_dump(exclude={"api"})


class ErrorOptions(InsideOptions):
    """Error response to inject."""

    code: str | int
    at_top: bool = False


class DelayOptions(InsideOptions):
    """Delay of the responses."""

    delay_ms: int = Field(ge=1, le=LATENCY_MS_MAX)


class DropOptions(InsideOptions):
    """Treatment of unanswered requests."""

    silent: bool = False
    handled: bool = False


class RefuseOptions(FaultOptions):
    """The address to close."""

    listener: str
    cut: bool = False


class FailpointOptions(FaultOptions):
    """Failpoint to arm."""

    arm: str
