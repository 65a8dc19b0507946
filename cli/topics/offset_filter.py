"""Filters: partitions by patterns of topics and partitions, and offsets by name. Sans-IO.

    orders            all partitions of topics that match the pattern; :0 of any topic
    orders:1          one    orders:1-3  from 1 up to 2    orders:2-  from 2 on    orders:-2  0 and 1

Source: Kafka's GetOffsetShell (parseOffsetSpec, parseRuleSpec), TopicFilter.IncludeList.
"""

import re
from collections.abc import Callable

from kvorum.client.partitions.offsets import Spec
from kvorum.protocol.topic_partition import TopicPartition

RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")
TIMES = {spec.name.lower().replace("_", "-"): int(spec) for spec in Spec}
Filter = Callable[[TopicPartition], bool]


class FilterError(ValueError):
    """An invalid pattern or time; the message has the reason."""


def parse_time(text: str) -> int:
    """Return a time in ms, or the number of a word. Raises FilterError."""
    if text in TIMES:
        return TIMES[text]
    try:
        return int(text)
    except ValueError:
        words = " / ".join(f"{number} or {word}" for word, number in sorted(TIMES.items(), key=lambda item: -item[1]))
        raise FilterError(
            f"Malformed time argument {text}. Please use {words}, or a specified long format timestamp"
        ) from None


def topic_pattern(text: str | None) -> re.Pattern[str]:
    """Return the pattern of a list of patterns, of any topic for None. Raises FilterError.

    An empty text matches no topic, as in Kafka's IncludeList.
    """
    try:
        return re.compile((".*" if text is None else text).strip().replace(",", "|").replace(" ", "").strip("\"'"))
    except re.error as error:
        raise FilterError(f"{text!r} is not a regular expression: {error}") from None


def by_topic_and_partitions(topic: str | None, partitions: str | None) -> Filter:
    """Return the filter of --topic and --partitions. Raises FilterError."""
    pattern = topic_pattern(topic)
    try:
        wanted = {int(part) for part in (partitions or "").split(",") if part.strip()}
    except ValueError:
        raise FilterError(
            f"--partitions expects a comma separated list of numeric partition ids, but received: {partitions}"
        ) from None
    return lambda place: pattern.fullmatch(place.topic) is not None and (not wanted or place.partition in wanted)


def by_rules(text: str) -> Filter:
    """Return the filter of --topic-partitions: what any of its rules lets pass. Raises FilterError."""
    rules = [_rule(part) for part in text.split(",")]
    return lambda place: any(rule(place) for rule in rules)


def _rule(text: str) -> Filter:
    match = RULE.fullmatch(text)
    if match is None:
        raise FilterError(f"Invalid rule specification: {text}")
    pattern = topic_pattern(match[1] or None)
    first, end = int(match[3] or 0), int(match[4]) if match[4] else None
    if match[2]:
        first, end = int(match[2]), int(match[2]) + 1
    return lambda place: (
        pattern.fullmatch(place.topic) is not None
        and place.partition >= first
        and (end is None or place.partition < end)
    )
