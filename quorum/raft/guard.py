"""The guard: Raft's rules where pysyncobj 0.3.17 breaks them, as pure functions. Sans-IO.

fault of pysyncobj (docs/decisions/0005)                         the rule here
B1   truncates the tail after any Append, conflict or not        `judge_append`: only from a conflict on
B2   a response has no term and counts in a later one            `AckFilter`: same term, this session's sequence
B12  installs a snapshot older than its own state                `snapshot_is_useful`
--   rewinds once for each response about the same gap           `AckFilter.may_rewind`
--   commit index beyond the entries of this Append              `judge_append`: clamped to its last entry
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

TermAt = Callable[[int], int | None]
"""The term of the entry at an index; None where the log does not reach."""


class AppendVerdict(NamedTuple):
    """Action for an Append whose term is current.

    `matched`: truncate from `truncate_from` (None: nothing to truncate), add the entries from index `skip` on, answer
    `at`, the last confirmed index. Not matched: change nothing, answer `at` as the next position.
    """

    matched: bool
    at: int
    skip: int = 0
    truncate_from: int | None = None


def judge_append(
    previous_index: int,
    previous_term: int,
    entry_terms: Sequence[int],
    *,
    first_index: int,
    last_index: int,
    committed: int,
    term_at: TermAt,
    first_index_of_term: Callable[[int, int], int],
) -> AppendVerdict:
    """Check an Append against the log.

    Everything up to `committed` is known to agree with any leader's log, so entries there are skipped unread; the log
    begins at `first_index` (covered by a snapshot, hence committed).
    """
    skip = 0
    if previous_index < first_index:
        skip = min(first_index - previous_index, len(entry_terms))
        if previous_index + skip < first_index:
            return AppendVerdict(True, previous_index + skip, skip)
        previous_index, previous_term = first_index, -1
    elif previous_index > last_index:
        return AppendVerdict(False, last_index + 1)
    elif term_at(previous_index) != previous_term:
        # Go back over the whole conflicting term at once, but never below the commit index.
        floor = committed + 1
        return AppendVerdict(False, max(first_index_of_term(previous_index, floor), floor))
    index = previous_index
    last_vouched = previous_index + len(entry_terms) - skip
    for term in entry_terms[skip:]:
        if index + 1 > last_index:
            break
        if term_at(index + 1) != term:
            return AppendVerdict(True, last_vouched, index - previous_index + skip, index + 1)
        index += 1
    return AppendVerdict(True, last_vouched, index - previous_index + skip)


def snapshot_is_useful(index: int, term: int, *, committed: int, term_at: TermAt) -> bool:
    """Return whether a snapshot up to (index, term) has entries that are neither committed here nor in the log."""
    return index > committed and term_at(index) != term


@dataclass(slots=True)
class AckFilter:
    """Filter of valid responses of one peer, in one term.

    Sequence numbers are drawn from one counter of the leader. A *session* is one run of the peer's process.
    """

    session_start: int = 0
    """Sequence numbers up to this were sent to an earlier life of the peer, or in an earlier term."""
    rewound_at: int = 0
    """Frames up to here were sent before the last rewind: their responses prove nothing about the gap."""

    def accepts(self, term: int, sequence: int, *, current_term: int) -> bool:
        """Return whether a response belongs to a message of this leader, in this term, to this run of the peer."""
        return term == current_term and sequence > self.session_start

    def may_rewind(self, sequence: int) -> bool:
        """Return whether a mismatch is new. One gap makes every Append in flight mismatch; one rewind is enough."""
        return sequence > self.rewound_at

    def rewound(self, last_sent: int) -> None:
        """Record a rewind; `last_sent` is the newest sequence number used so far."""
        self.rewound_at = last_sent

    def new_session(self, last_sent: int) -> None:
        """Record that the peer (or the term) is a new one."""
        self.session_start = self.rewound_at = last_sent
