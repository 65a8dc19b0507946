"""Topics by pattern (RE2), resolved outside of requests. Sans-IO.

A pattern selects the topics whose whole name it matches and that the requesting member may describe. It is resolved
again after topics were created, or after regex_refresh_interval_ms, but at most every REFRESH_INTERVAL_MS_MIN;
always all patterns of a group together. RE2 matches in time linear in the name, but also linear in the pattern: a
malicious pattern takes ten milliseconds per name. So names are matched outside the loop, and a pattern must compile in
little memory, which limits its time. Source: Kafka's TopicRegexResolver,
GroupMetadataManager.maybeUpdateRegularExpressions.
"""

from collections.abc import Callable, Collection, Iterator
from itertools import islice
from typing import Final

import re2  # type: ignore[import-untyped]  # the wheel has no stubs

from kvorum.broker.coordinator.group.words import ResolvedRegex
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.quorum.image import MetadataImage
from kvorum.runtime.logs import get_logger

REFRESH_INTERVAL_MS_MIN: Final = 10_000
"""Kafka's REGEX_BATCH_REFRESH_MIN_INTERVAL_MS."""
NAMES_PER_TURN: Final = 1_000
"""Names matched in one turn."""
SLICE_MS: Final = 20
"""For how long one group's names are matched before another's are; the last match may take as long again."""
MEMORY_MAX: Final = 512 * 1024
"""Limit of a compiled pattern: a list of a thousand names, or 4 ms to compile, in which no other thread runs."""
BYTES_MAX: Final = 32_767
"""The longest string there is in a request of Kafka's."""

MayDescribe = Callable[[str], bool]
log = get_logger("groups")


def compiled(pattern: str) -> Callable[[str], bool]:
    """Return a function that matches whole names. Raises KafkaError INVALID_REGULAR_EXPRESSION."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY_MAX
    try:
        if len(pattern.encode()) > BYTES_MAX:
            raise re2.error("pattern too long")
        matches = re2.compile(pattern, options).fullmatch
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0] if error.args else error
        shown = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {shown}.",
        ) from error
    return lambda name: matches(name) is not None


class Resolution:
    """One refresh of a group's patterns, done in turns: first `step` off the loop, then `judge` on it, each until it
    returns False; `result` is whole then.
    """

    def __init__(
        self, patterns: Collection[str], image: MetadataImage, may_describe: MayDescribe, wall_ms: int
    ) -> None:
        """Start without matched names."""
        self._left = sorted(patterns)
        self._found: dict[str, set[str]] = {pattern: set() for pattern in patterns}
        self._unread: Iterator[str] = iter(image.topics.by_name)
        self._names: list[str] = []
        self._matching: Iterator[None] | None = None
        self._may_describe = may_describe
        self._unjudged: Iterator[str] | None = None
        self._allowed: set[str] = set()
        self._version = image.offset
        self._timestamp_ms = wall_ms

    def step(self, now_ms: Callable[[], int]) -> bool:
        """Match names for about SLICE_MS; return whether more are left."""
        if self._matching is None:
            self._matching = self._match_all()
        until_ms = now_ms() + SLICE_MS
        return any(now_ms() >= until_ms for _ in self._matching)

    def _match_all(self) -> Iterator[None]:
        while names := list(islice(self._unread, NAMES_PER_TURN)):
            self._names += names
            yield
        # One pattern at a time, so that not all compiled patterns are in memory.
        for pattern in self._left:
            try:
                matches = compiled(pattern)
            except KafkaError as error:
                # The member that sent it got an error. This pattern is in the log, from an implementation with another
                # dialect.
                log.error("subscription pattern is invalid and matches no topic", pattern=pattern, error=error)
                continue
            found = self._found[pattern]
            for name in self._names:
                if matches(name):
                    found.add(name)
                yield

    def judge(self) -> bool:
        """Check the visibility of some more matching names; return whether more are left."""
        if self._unjudged is None:
            self._unjudged = iter(frozenset().union(*self._found.values()))
        names = list(islice(self._unjudged, NAMES_PER_TURN))
        self._allowed.update(filter(self._may_describe, names))
        return len(names) == NAMES_PER_TURN

    @property
    def result(self) -> dict[str, ResolvedRegex]:
        """The topics by pattern."""
        return {
            pattern: ResolvedRegex(frozenset(names & self._allowed), self._version, self._timestamp_ms)
            for pattern, names in self._found.items()
        }
