"""Where groups are placed that stand before all that a mirror has mirrored."""

from types import SimpleNamespace
from typing import Any

import pytest

from kvorum.pipelines.bridge.offsets import TopicPartition
from kvorum.pipelines.mirror.spec import MirrorSpec
from kvorum.pipelines.mirror.translation import Mark, OffsetMap, Translator

PLACE = TopicPartition("orders", 0)


def translator(starting_offsets: str) -> Translator:
    """One mark: the mirror began at 179, where the target ended at 178."""
    known = OffsetMap()
    known.take(Mark(place=PLACE, number=0, source=179, target=178))
    said = {
        "name": "back",
        "source": {"alias": "new", "bootstrap": "new:9092"},
        "target": {"alias": "old", "bootstrap": "old:9092"},
        "topics": ["orders"],
        "checkpoint": "/nowhere",
        "startingOffsets": starting_offsets,
    }
    logs: Any = SimpleNamespace(bounds=lambda place: (0, 1_000))
    return Translator(MirrorSpec.model_validate(said), known, logs)


@pytest.mark.parametrize(("starting", "found"), [("earliest", {174: 178, 179: 178}), ("latest", {179: 178})])
def test_who_stands_before_a_mirror_that_began_at_the_end_is_not_moved(starting: str, found: dict[int, int]) -> None:
    """The records between are not mirrored, and the target may have them by itself: it would leave them out."""
    assert translator(starting).translate(PLACE, [174, 179]) == found
