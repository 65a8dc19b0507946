"""Long work as a generator: each `next` does a part, and the caller decides when other work runs.

    def counted(image) -> Steps[int]:       # yields every now and then, returns its result
    count = finish(counted(image))          # all at once
    count = await Slices().run(...)         # kvorum.quorum.slices: in turns with everything else on the event loop

Sans-IO. Code that is driven elsewhere sees the state at its beginning; its driver keeps that valid, or discards the
work. A step must be short: a fraction of a millisecond, so that a slice ends when its time is up.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]

STEP_COUNT: Final = 200
"""Things of some microseconds each (records, partitions) that make a step."""


def step(steps: Steps[T]) -> tuple[T] | None:
    """Execute the next step; return the result, alone in a tuple, if it was the last."""
    try:
        next(steps)
    except StopIteration as end:
        return (end.value,)
    return None


def finish(steps: Steps[T]) -> T:
    """Execute all steps now; return the result."""
    while (done := step(steps)) is None:
        pass
    return done[0]


def used_up(items: list[T]) -> Iterator[T]:
    """Yield the items and release each, so that they are freed one by one instead of all in the last step."""
    items.reverse()
    while items:
        yield items.pop()


def pieces(items: Iterable[T], count: int = STEP_COUNT) -> Iterator[Sequence[T]]:
    """Yield the items in lists of at most `count`."""
    iterator = iter(items)
    while piece := list(islice(iterator, count)):
        yield piece
