"""Tables as Kafka's scripts print them."""

from collections.abc import Sequence

from kvorum.cli.output import say


def pretty_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table as Kafka's ToolsUtils.prettyPrintTable does: padded, and a tab behind each column."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(text) for text in column) for column in zip(headers, *cells, strict=True)]
    for line in (list(headers), *cells):
        say("".join(f"{text.ljust(width)}\t" for text, width in zip(line, widths, strict=True)))


def pad_columns(rows: Sequence[Sequence[str]], least: Sequence[int]) -> list[str]:
    """Return rows as lines; a column is as wide as its widest cell if `least` is negative, and fixed otherwise."""
    widths = []
    for index, width in enumerate(least):
        widest = max(len(row[index]) for row in rows[1:]) if len(rows) > 1 else 0
        widths.append(max(-width, widest) if width < 0 else width)
    return [" ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
