"""A row of the table: a name, what is sent in words, and the sending."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.cluster.wire.world import Json, World


@dataclass(frozen=True, slots=True)
class Case:
    """One row. `run` sends and returns the answer as JSON."""

    name: str
    sent: str
    run: Callable[[World], Json]
