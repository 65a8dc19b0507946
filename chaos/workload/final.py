"""The final phase's reads: fresh clients read every partition from its beginning to its high watermark, to its end.

The checker decides whether that end is correct: it knows every returned offset.
"""

import time
from collections.abc import Mapping
from typing import Final

from kvorum.chaos.client_access import ClientAccess
from kvorum.chaos.workload.readers import AssignedConsumer
from kvorum.chaos.workload.recorder import Recorder

FINAL_SECONDS: Final = 60.0
ROUND_SECONDS: Final = 20.0
"""Time after which a consumer that has not reached the end is replaced by a new one."""
QUIET_POLLS: Final = 3
"""Empty polls that end the reading of partitions that are at their end."""
PARTITIONS_MAX: Final = 64
"""Timeout of one consumer."""


def read_all(
    recorder: Recorder, access: ClientAccess, ends: Mapping[str, int], seconds: float = FINAL_SECONDS
) -> list[str]:
    """Read everything up to these offsets (exclusive); return the partitions that were not completely read in time."""
    deadline = time.monotonic() + seconds
    partitions = list(ends)
    left: list[str] = []
    for at in range(0, len(partitions), PARTITIONS_MAX):
        left += _read(recorder, access, partitions[at : at + PARTITIONS_MAX], ends, deadline)
    return left


def _read(
    recorder: Recorder, access: ClientAccess, partitions: list[str], ends: Mapping[str, int], deadline: float
) -> list[str]:
    while True:
        consumer = AssignedConsumer(recorder, access, final=True, client_id="kvorum-chaos-final")
        try:
            consumer.assign(partitions)
            until = min(deadline, time.monotonic() + ROUND_SECONDS)
            quiet = 0
            while time.monotonic() < until:
                quiet = 0 if consumer.poll() else quiet + 1
                behind = [each for each in partitions if consumer.positions.get(each, 0) < ends[each]]
                if not behind and quiet >= QUIET_POLLS:
                    return []
        finally:
            consumer.close()
        if time.monotonic() >= deadline:
            return behind
