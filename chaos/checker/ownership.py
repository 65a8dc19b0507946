"""Groups: a partition has at most one owner at a time, and no commit succeeds for an ended generation.

two-owners: a member got a partition that another still owned. A member is the owner until it got the change, died, was
replaced by another of its instance id, or its session could have ended: after a session timeout since the last accepted
request, the coordinator may consider it dead, and a zombie, whose later commits must fail. The same holds for a member
that did not get a rebalance within its timeout: its commits are accepted until its removal.
Both times are lower bounds (an accepted request may be missing in the history), so uncertain cases are legal.
Also legal: a member gets late the partitions assigned before it became a zombie; the member's coordinator was one:
deposed, and cut off from updates (Timeline.excuse_coordinator). stale-commit: a commit was accepted for a generation
of a classic group, though a member knew a later one before the commit began (Kafka rejects it: ILLEGAL_GENERATION).
This is the harm that a zombie could do.
"""

from dataclasses import dataclass, field
from typing import Final

from kvorum.chaos.checker.facts import Fact, MemberRequest
from kvorum.chaos.history import Invoke, Ok, Operation, Owned

CLASSIC: Final = "classic"
NO_GENERATION: Final = -1
OFFSETS_TOPIC: Final = "__consumer_offsets"


@dataclass(slots=True)
class Member:
    """One process in one group: its current state."""

    owned: Owned
    since: dict[str, float] = field(default_factory=dict)
    """When it got each partition that it owns."""
    contact: float = 0.0
    """Time of the last request that the coordinator is known to have accepted."""
    stable_since: float = 0.0
    """When the last request was sent whose answer would have reported a rebalance."""
    follows: bool = False
    """Its heartbeats are in the history, not its commits alone."""

    def may_have_expired(self, t: float) -> bool:
        """Return whether its session could have ended by then, or a rebalance that it did not get."""
        is_dropped = self.owned.rebalance > 0 and t >= self.stable_since + self.owned.rebalance
        return is_dropped or t >= self.contact + self.owned.session


class Ownership:
    """Process the history in order with its methods; findings are in `facts`."""

    def __init__(self) -> None:
        """Create an empty object without groups."""
        self.facts: list[Fact] = []
        self._members: dict[str, dict[int, Member]] = {}
        self._owners: dict[tuple[str, str], set[int]] = {}
        self._generations: dict[str, tuple[int, float, int]] = {}
        """The highest known generation of each classic group: (generation, since when, member)."""

    def take(self, event: Owned) -> None:
        """A member owns something else from now on."""
        members = self._members.setdefault(event.group, {})
        member = members.get(event.process)
        if member is None:
            heard = event.t if event.contact is None else event.contact
            member = members[event.process] = Member(event, contact=heard, stable_since=heard)
            self._fence_instance(event)
        before = member.since
        # A late assignment from before it became a zombie is legal.
        late = member.follows and event.contact is None and member.may_have_expired(event.t)
        member.owned = event
        if event.contact is not None:
            member.follows = True
            member.contact = max(member.contact, event.contact)
            member.stable_since = max(member.stable_since, event.contact)
        member.since = {name: before.get(name, event.t) for name in event.partitions}
        for name in before.keys() - member.since.keys():
            self._owners[event.group, name].discard(event.process)
        if event.protocol == CLASSIC and event.partitions:
            known = self._generations.get(event.group, (NO_GENERATION, 0.0, 0))
            if event.generation > known[0]:
                self._generations[event.group] = (event.generation, event.t, event.process)
        for name in member.since.keys() - before.keys():
            if not late:
                self._check_gain(event, name)
            self._owners.setdefault((event.group, name), set()).add(event.process)

    def crash(self, process: int) -> None:
        """End a process: it owns nothing any more."""
        for group, members in self._members.items():
            member = members.pop(process, None)
            for name in member.since if member is not None else ():
                self._owners[group, name].discard(process)

    def take_commit(self, event: Ok, begun: Invoke, group: str) -> None:
        """The coordinator accepted offsets; OffsetCommit renews a classic member's session."""
        member = self._members.get(group, {}).get(event.process)
        if member is not None and event.f == "commit" and member.owned.protocol == CLASSIC:
            member.contact = max(member.contact, begun.t)
        self._stale(event, begun, group)

    def _fence_instance(self, event: Owned) -> None:
        """Another process has come with the same instance id: the old one is fenced."""
        if event.instance:
            members = self._members[event.group]
            for process in [each for each, old in members.items() if old.owned.instance == event.instance]:
                if process != event.process:
                    old = members.pop(process)
                    for name in old.since:
                        self._owners[event.group, name].discard(process)

    def _check_gain(self, event: Owned, name: str) -> None:
        """Check a gain against all former owners."""
        members = self._members[event.group]
        for process in sorted(self._owners.get((event.group, name), ())):
            other = members[process]
            if process == event.process or other.may_have_expired(event.t):
                continue
            reason = (
                f"process {event.process} owned {name} in group {event.group} from {event.t:.3f} s on "
                f"(generation {event.generation}), while process {process} owned it since {other.since[name]:.3f} s "
                f"(generation {other.owned.generation}): the coordinator had accepted a request of it sent at "
                f"{other.contact:.3f} s, and its session is {other.owned.session:g} s"
            )
            if other.owned.rebalance:
                reason += (
                    f"; at {other.stable_since:.3f} s it would have received a rebalance, which would have waited "
                    f"for {other.owned.rebalance:g} s"
                )
            story = (
                (other.since[name], f"process {process} owns {name}"),
                (event.t, f"process {event.process} also owns {name}"),
            )
            self.facts.append(
                Fact(
                    "two-owners",
                    name,
                    None,
                    event.t,
                    reason,
                    story,
                    since=other.since[name],
                    topics=(OFFSETS_TOPIC,),
                    member_request=MemberRequest(event.group, other.contact, other.owned.session),
                )
            )

    def _stale(self, event: Operation, begun: Invoke, group: str) -> None:
        generation = begun.generation if event.generation is None else event.generation
        known = self._generations.get(group)
        if generation is None or generation < 0 or known is None or known[0] <= generation or known[1] >= begun.t:
            return
        newest, since, process = known
        reason = (
            f"group {group} accepted a commit of process {event.process} for generation {generation} (op {event.op}, "
            f"started at {begun.t:.3f} s), although process {process} was in generation {newest} since {since:.3f} s"
        )
        story = ((since, f"process {process} is in generation {newest}"), (begun.t, f"op {event.op} commits"))
        self.facts.append(
            Fact("stale-commit", None, None, event.t, reason, story, since=since, topics=(OFFSETS_TOPIC,))
        )
