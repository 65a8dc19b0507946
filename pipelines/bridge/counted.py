"""How many rows each query of this process has written: Spark does not count what foreachBatch writes."""

from collections import Counter

_rows: Counter[str] = Counter()


def add(query: str, rows: int) -> None:
    """Count rows that are written for good. Called by a query's own thread alone."""
    _rows[query] += rows


def rows(query: str | None) -> int | None:
    """Return how many there were since the process began; None for a query that never counted."""
    return None if query is None else _rows.get(query)
