"""Checks of acknowledgements without further data.

missing-offset: a send with acks=all was acknowledged without the offset that its client library otherwise returns: the
place of the record is unknown, if it exists at all. Not reported for idempotent librdkafka, which considers a batch
with an error as written once a later one is acknowledged: the broker would have rejected that one otherwise.
acked-below-min-isr: a send with acks=all was acknowledged although the recorded ISR had been smaller than
min.insync.replicas for so long that the leader must have known.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from kvorum.chaos.checker.derive import Derivation
from kvorum.chaos.checker.lineage import DEPOSED_LEADER_MAX
from kvorum.chaos.checker.logs import Finding
from kvorum.chaos.checker.partitions import Partition
from kvorum.chaos.checker.sends import NEVER, NOWHERE, OK
from kvorum.chaos.checker.timeline import FOLLOW_LAG_MAX, Timeline

LIBRDKAFKA: Final = ("confluent-kafka", "librdkafka", "rdkafka")


def find_missing_offsets(derivation: Derivation) -> Iterator[Finding]:
    """Yield sends with acks=all that succeeded and whose response has no offset."""
    sends = derivation.sends
    for row in derivation.without_offset:
        process = derivation.promises(sends.process[row])
        if process.acks in ("all", "-1") and not (process.idempotent and process.client.startswith(LIBRDKAFKA)):
            value = sends.value[row]
            reason = f"value {value} was acknowledged with acks=all at {sends.completed[row]:.3f} s without an offset"
            yield Finding("missing-offset", sends.partition[row], (row,), NOWHERE, value, reason)


def below_min_isr(derivation: Derivation, timeline: Timeline, partition: Partition) -> Iterator[Finding]:
    """Yield acks=all sends acknowledged although the ISR was too small from before the send until then."""
    spans = _low_spans(timeline, partition.name)
    if not spans:
        return
    sends = derivation.sends
    strong: dict[int, bool] = {}
    for row in partition.writers.values():
        since, process = sends.invoked[row] - DEPOSED_LEADER_MAX, sends.process[row]
        at = bisect_right(spans, since, key=lambda span: span[0]) - 1
        if at < 0 or sends.kind[row] != OK or sends.completed[row] + FOLLOW_LAG_MAX >= spans[at][1]:
            continue
        if process not in strong:
            strong[process] = derivation.promises(process).acks in ("all", "-1")
        if strong[process]:
            begin, end, largest = spans[at]
            until = "the end" if end == NEVER else f"{end:.3f} s"
            reason = (
                f"value {sends.value[row]} was acknowledged with acks=all at {sends.completed[row]:.3f} s, but from "
                f"{begin:.3f} s to {until} the ISR had at most {largest} members, fewer than min.insync.replicas"
            )
            yield Finding("acked-below-min-isr", partition.index, (row,), NOWHERE, sends.value[row], reason)


def _low_spans(timeline: Timeline, name: str) -> list[tuple[float, float, int]]:
    """Return from when to when an ISR was below every min.insync.replicas then in force, and its largest size then."""
    states, topic = timeline.states.get(name, []), name.rpartition("-")[0]
    spans: list[tuple[float, float, int]] = []
    if timeline.has_samples:
        return spans  # between two samples an ISR may have been another
    for at, state in enumerate(states):
        size, end = len(state.isr), states[at + 1].t if at + 1 < len(states) else NEVER
        if size >= min(timeline.configs.least_min_isr(topic, state.t, end), len(state.replicas) or size):
            continue
        if spans and spans[-1][1] == state.t:
            spans[-1] = (spans[-1][0], end, max(spans[-1][2], size))
        else:
            spans.append((state.t, end, size))
    return spans
