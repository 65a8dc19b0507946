"""Leaderships that leave a broker for its maintenance, and come back after it. Sans-IO; see controller/duty.

    maintenance  each partition it leads goes to the first other replica that is in the ISR and may lead; a partition
                 for which there is none stays, until one has come into sync
    active       each partition it is the preferred leader of comes back, as soon as it is in the ISR; when it leads
                 them all, the config is removed

A decision makes LEADERS_A_STEP changes at the most, since clients look for so many new leaders at once. What cannot be
done now is tried when something of the metadata has changed.
"""

from collections.abc import Iterator
from typing import Final

from kvorum.quorum.controller.context import Context
from kvorum.quorum.controller.duty import Duty, cleared, duties_in
from kvorum.quorum.controller.elections import partition_election
from kvorum.quorum.controller.partition_change import Election
from kvorum.quorum.controller.result import Result
from kvorum.quorum.image.partition_set import TopicIdPartition
from kvorum.quorum.records import MetadataRecord
from kvorum.quorum.steps import Steps, pieces

LEADERS_A_STEP: Final = 100


def move_leaders(context: Context) -> Steps[Result[bool]]:
    """Relieve whom maintenance was asked of, give back to whom it is over; the answer: there is more to do at once."""
    records: list[MetadataRecord] = []
    more = False
    for broker_id, duty in duties_in(context.image).items():
        if duty is Duty.MAINTENANCE:
            more |= yield from _relieve(context, broker_id, records)
        elif duty is Duty.ACTIVE:
            more |= yield from _give_back(context, broker_id, records)
    return Result(records=records, response=more)


def _relieve(context: Context, broker_id: int, records: list[MetadataRecord]) -> Steps[bool]:
    led = yield from context.image.topics.index.partitions_led_by(broker_id)
    return (yield from _elect(context, _shared(context, led), Election.RELIEF, records))


def _shared(context: Context, partitions: Iterator[TopicIdPartition]) -> Iterator[TopicIdPartition]:
    """Leave out what nobody else is in sync with: a broker may have many such, each time."""
    return (key for key in partitions if len(context.image.topics.existing(key)[1].isr) > 1)


def _give_back(context: Context, broker_id: int, records: list[MetadataRecord]) -> Steps[bool]:
    theirs: list[TopicIdPartition] = []
    waiting = False
    for piece in pieces((yield from context.image.topics.index.imbalanced_partitions())):
        for key in piece:
            partition = context.image.topics.existing(key)[1]
            if partition.preferred_leader == broker_id:
                waiting = True
                if broker_id in partition.isr:
                    theirs.append(key)
        yield
    if not waiting:
        records.append(cleared(broker_id))
    return (yield from _elect(context, iter(theirs), Election.PREFERRED, records))


def _elect(
    context: Context, partitions: Iterator[TopicIdPartition], election: Election, records: list[MetadataRecord]
) -> Steps[bool]:
    """Add the elections there is room for; tell whether there may be more."""
    for piece in pieces(partitions):
        for key in piece:
            if len(records) >= LEADERS_A_STEP:
                return True
            topic, partition = context.image.topics.existing(key)
            change = partition_election(context, topic, key.partition_id, partition, election)
            if change is not None:
                records.append(change)
        yield
    return False
