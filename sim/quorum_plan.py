"""A run of the quorum's simulation as data: seed, options, and every fault and repair with its time. Sans-IO.

Faults are drawn while a seed runs (see quorum_faults): the next one depends on the stopped nodes. The result is
recorded, so a run can be saved, replayed and shrunk: a replay executes the list and draws nothing. Everything else
still depends on the seed, so the complete list repeats the seed's run exactly.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from kvorum.quorum.raft.replicated import RaftMetadataLog
from kvorum.quorum.raft.settings import RaftSettings
from sim.network import NetworkOptions
from sim.quorum_options import Options


class QuorumFault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fault, or the repair of one. `at` in seconds from the start; `node` and `other` are voters, 0 means none."""

    at: float
    kind: str
    node: int = 0
    other: int = 0
    ways: str = "both"
    """Direction of a cut or an isolation, from the node's view: in, out or both."""
    detail: str = ""
    """The failing disk operation; cut or kill of an upgrade's leader; `move` of an added voter."""
    number: int = 0
    """The errno it fails with."""

    def text(self) -> str:
        """Describe it."""
        words = [self.kind.replace("_", " ")]
        words += [f"node {self.node}"] if self.node else []
        words += [f"and node {self.other}"] if self.other else []
        words += [f"({self.ways})"] if self.kind in ("cut", "isolate") else []
        words += [f"({self.detail}{f', errno {self.number}' if self.number else ''})"] if self.detail else []
        return " ".join(words)


class QuorumOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options without the class of the log, which is code."""

    voters: int
    known_directories: bool
    wipes: bool
    network: NetworkOptions
    append_every_s: float
    fault_every_s: float
    settings: RaftSettings
    initial: int = 0
    static: int = 0
    moves: bool = False

    @classmethod
    def of(cls, options: Options) -> "QuorumOptions":
        """Take over an options' values."""
        return cls(**{name: getattr(options, name) for name in cls.__struct_fields__})

    def text(self) -> str:
        """Return the important options in one line."""
        known, wipes = "known at format" if self.known_directories else "agreed on later", self.wipes
        network, settings = self.network, self.settings
        wild = f"loss {network.loss:g}, duplicates {network.duplicate:g}, reordering {network.reorder:g}"
        first = self.initial or self.static
        some = f"{first} voters at first of {self.voters} nodes" if first else f"{self.voters} voters"
        some += ", static until they are upgraded" if self.static else ""
        some += ", which move" if self.moves else ""
        return (
            f"{some}, directories {known}, {'wipes' if wipes else 'no wipes'}; "
            f"delays to {network.delay_max_s * 1000:g} ms, {wild}; appends of {settings.append_bytes} bytes, window "
            f"{settings.window_count}, snapshots every {settings.snapshot_bytes} bytes; faults about every "
            f"{self.fault_every_s:g} s"
        )


class QuorumPlan(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="quorum"):
    """A run that replays exactly, as long as a seed draws the same number of values for its options."""

    seed: int
    seconds: float
    options: QuorumOptions
    faults: list[QuorumFault]

    def run_options(self, log_class: type[RaftMetadataLog] = RaftMetadataLog) -> Options:
        """Return the arguments of the world."""
        values = {name: getattr(self.options, name) for name in QuorumOptions.__struct_fields__}
        return Options(duration_s=self.seconds, log_class=log_class, **values)


def plan_of(seed: int, options: Options, faults: Sequence[QuorumFault]) -> QuorumPlan:
    """Return the plan of a seed that ran."""
    return QuorumPlan(seed=seed, seconds=options.duration_s, options=QuorumOptions.of(options), faults=list(faults))


class Kind(msgspec.Struct):
    """The part of a saved plan that has its kind."""

    kind: Literal["cluster", "quorum"] = "cluster"
