"""The list and validate-regex actions of `kafka-consumer-groups`."""

from collections.abc import Sequence

import click

from kvorum.cli.kafka.common import Connection
from kvorum.cli.kafka.consumer_groups_describe import REBALANCING
from kvorum.cli.output import say

STATES = (*REBALANCING, "Stable", "Dead", "Empty", "NotReady")
TYPES = ("Classic", "Consumer")


def list_groups(connection: Connection, state: str | None, group_type: str | None, timeout_ms: int) -> None:
    """Print the ids, or a table with types and states."""
    from kvorum.client.namespaces.groups import Groups

    states, types = parse_words(state, STATES, "state"), parse_words(group_type, TYPES, "type")
    found = connection.run(lambda cluster: Groups(cluster).list(states, types), timeout_ms=timeout_ms)
    groups = [each for each in found if each.has_consumers]
    if state is None and group_type is None:
        for each in groups:
            say(each.group_id)
        return
    columns = [["GROUP", *(each.group_id for each in groups)]]
    if group_type is not None:
        columns.append(["TYPE", *(each.type.capitalize() for each in groups)])
    if state is not None:
        columns.append(["STATE", *(each.state for each in groups)])
    widths = [max([15, *(len(each.group_id) for each in groups)]) + 10, 20, 20]
    for line in zip(*columns, strict=True):
        say(" ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=False)))


def parse_words(text: str | None, known: Sequence[str], what: str) -> list[str]:
    """Return the words of a list, in Kafka's spelling; an invalid one ends the command."""
    spelling = {word.casefold(): word for word in known}
    words = [word.strip() for word in (text or "").split(",") if word.strip()]
    if not {word.casefold() for word in words} <= spelling.keys():
        raise click.UsageError(f"Invalid {what} list '{text}'. Valid {what}s are: {', '.join(known)}")
    return [spelling[word.casefold()] for word in words]


def validate_regex(pattern: str) -> None:
    """Print whether RE2 accepts a pattern."""
    import re2  # type: ignore[import-untyped]  # the wheel has no stubs

    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode() if isinstance(error.args[0], bytes) else error.args[0]
        say(f"The regular expression `{pattern}` is invalid: {reason}.")
        return
    say(f"The regular expression `{pattern}` is valid.")
