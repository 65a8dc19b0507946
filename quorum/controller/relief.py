"""Moves leaderships off a broker in maintenance, and back afterwards. Sans-IO (controller/broker_admin_state).

    maintenance  the first other eligible in-sync replica becomes leader; a partition without one keeps its leader
                 until another replica is in sync
    active       each preferred leadership returns when the replica is in the ISR; when all have returned, the config
                 is removed

A decision changes at most LEADERS_A_STEP leaders, because clients search for all of them at the same time. Impossible
changes are tried again after a change of the metadata.
"""

from collections.abc import Iterator
from typing import Final

from kvorum.quorum.controller.broker_admin_state import BrokerAdminState, admin_states_in, cleared
from kvorum.quorum.controller.context import Context
from kvorum.quorum.controller.elections import partition_election
from kvorum.quorum.controller.partition_change import Election
from kvorum.quorum.controller.result import Result
from kvorum.quorum.image.partition_set import TopicIdPartition
from kvorum.quorum.records import MetadataRecord
from kvorum.quorum.steps import Steps, pieces

LEADERS_A_STEP: Final = 100


def move_leaders(context: Context) -> Steps[Result[bool]]:
    """Move leaders off brokers in maintenance and back to active ones; return whether more can be done at once."""
    records: list[MetadataRecord] = []
    more = False
    for broker_id, state in admin_states_in(context.image).items():
        if state is BrokerAdminState.MAINTENANCE:
            more |= yield from _relieve(context, broker_id, records)
        elif state is BrokerAdminState.ACTIVE:
            more |= yield from _give_back(context, broker_id, records)
    return Result(records=records, response=more)


def _relieve(context: Context, broker_id: int, records: list[MetadataRecord]) -> Steps[bool]:
    led = yield from context.image.topics.index.partitions_led_by(broker_id)
    return (yield from _elect(context, _shared(context, led), Election.RELIEF, records))


def _shared(context: Context, partitions: Iterator[TopicIdPartition]) -> Iterator[TopicIdPartition]:
    """Skip partitions without another in-sync replica: a broker may have many."""
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
    """Add as many elections as permitted; return whether there may be more."""
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
