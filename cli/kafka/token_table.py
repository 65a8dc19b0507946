"""Table of delegation tokens as `kafka-delegation-tokens` prints it."""

from datetime import datetime
from typing import TYPE_CHECKING

from kvorum.cli.output import raw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvorum.client.values.delegation_token import DelegationToken

WIDTHS = (15, 30, 15, 15, 25, 15, 15, 15)
TITLES = ("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")


def print_tokens(tokens: "Sequence[DelegationToken]") -> None:
    """Print the table of tokens."""
    rows: list[tuple[str, ...]] = [TITLES]
    for token in tokens:
        times = (token.issued_at_ms, token.expires_at_ms, token.max_at_ms)
        rows.append(
            (
                *(token.token_id, token.password, token.owner, token.requester, java_list(token.renewers)),
                *map(date_text, times),
            )
        )
    for row in rows:
        raw("\n" + " ".join(text.ljust(width) for text, width in zip(row, WIDTHS, strict=True)) + "\n")


def java_list(texts: "Sequence[str]") -> str:
    """Return a list as Java prints it."""
    return f"[{', '.join(texts)}]"


def date_text(timestamp_ms: int) -> str:
    """Return a time of this machine's zone, to the minute."""
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000).strftime("%Y-%m-%dT%H:%M")
    except (ValueError, OverflowError, OSError):  # beyond the year 9999
        return str(timestamp_ms)
