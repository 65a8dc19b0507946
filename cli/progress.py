"""Progress of long work, as a bar on standard error: on a terminal only."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

Step = Callable[[int], None]
"""Called with the progress since the last call."""


@contextmanager
def bar(total: int, label: str, *, beside_output: bool = False) -> Iterator[Step]:
    """Show a bar of `total` steps until the block ends.

    `beside_output`: the work prints lines meanwhile, which would break a bar on the same terminal.
    """
    shown = sys.stderr.isatty() and not (beside_output and sys.stdout.isatty())
    with click.progressbar(length=total, label=label, file=sys.stderr, hidden=not shown) as found:
        yield found.update
