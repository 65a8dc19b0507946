"""BrokerHeartbeat (63): v0-v2, sessions, fencing and controlled shutdown (BrokerHeartbeatManager, KIP-631, KIP-841).

Sans-IO. The states of a broker, driven by heartbeats; a lost session or a refused connection fences from any:

    FENCED              --want_shut_down--> SHUTDOWN_NOW          (it may stop)
                        --not want_fence, caught up with its registration--> UNFENCED
    UNFENCED            --want_fence--> FENCED                    (with want_shut_down: SHUTDOWN_NOW)
                        --want_shut_down, leads nothing--> SHUTDOWN_NOW
                        --want_shut_down, an ISR would fall below its minimum and waiting helps--> UNFENCED
                        --want_shut_down--> CONTROLLED_SHUTDOWN
    CONTROLLED_SHUTDOWN --leads nothing, others have applied its effects--> SHUTDOWN_NOW

SHUTDOWN_NOW fences. A fenced or stopping broker leads nothing and joins no ISR. Unlike in Kafka, a controlled shutdown
is delayed (at most shutdown_wait_ms_max) while it would take an ISR below min.insync.replicas and a live replica could
still join that ISR: so a rolling restart never rejects writes because of too few replicas.
"""

from enum import Enum
from typing import Final, assert_never

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kvorum.quorum.controller.context import Context
from kvorum.quorum.controller.heartbeats import BrokerHeartbeat
from kvorum.quorum.controller.leader_isr import (
    controlled_shutdown_records,
    fence_records,
    leader_and_isr_changes,
    unfence_records,
)
from kvorum.quorum.controller.result import Result
from kvorum.quorum.image.cluster import BrokerRegistration
from kvorum.quorum.image.partition_set import TopicIdPartition
from kvorum.quorum.records import BrokerRegistrationChange, MetadataRecord
from kvorum.quorum.steps import Steps, pieces

BROKERS_FENCED_MAX: Final = 1
"""Stale brokers fenced in one decision: the effect of each must be visible before the next one is judged."""


class BrokerState(Enum):
    """See the table above."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"


def heartbeat(context: Context, request: BrokerHeartbeatRequest) -> Steps[Result[BrokerHeartbeatResponse]]:
    """Process a heartbeat and move the broker to its next state.

    Raises KafkaError STALE_BROKER_EPOCH; INVALID_REQUEST for cordoned log directories that are not its own.
    """
    broker = context.checked_broker(request.broker_id, request.broker_epoch)
    contact = context.heartbeats.touch(broker, context.now_ms, request.current_metadata_offset)
    current = current_state(broker)
    target = yield from next_state(context, request, broker, contact)
    records: list[MetadataRecord] = []
    match target:
        case BrokerState.FENCED | BrokerState.SHUTDOWN_NOW:
            if not broker.fenced:
                records = yield from fence_records(context, broker.broker_id)
        case BrokerState.UNFENCED:
            if broker.fenced:
                # Before it may lead: it does not get replicas in a directory that has failed.
                records = yield from offline_log_dir_records(context, broker, request)
                if records:
                    target = BrokerState.FENCED
                else:
                    records = yield from unfence_records(context, broker.broker_id)
        case BrokerState.CONTROLLED_SHUTDOWN:
            if current is not target:
                records = yield from controlled_shutdown_records(context, broker.broker_id)
                contact.shutdown_offset = context.next_offset + len(records) - 1
        case _:
            assert_never(target)
    if not records:
        records = yield from offline_log_dir_records(context, broker, request)
    records += cordon_records(broker, request)
    response = BrokerHeartbeatResponse(
        is_caught_up=request.current_metadata_offset >= broker.broker_epoch,
        is_fenced=target in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW),
        should_shut_down=target is BrokerState.SHUTDOWN_NOW,
    )
    return Result(records=records, response=response)


def current_state(broker: BrokerRegistration) -> BrokerState:
    """Return a broker's state from its registration."""
    if broker.fenced:
        return BrokerState.FENCED
    return BrokerState.CONTROLLED_SHUTDOWN if broker.in_controlled_shutdown else BrokerState.UNFENCED


def next_state(
    context: Context, request: BrokerHeartbeatRequest, broker: BrokerRegistration, contact: BrokerHeartbeat
) -> Steps[BrokerState]:
    """Find where a heartbeat leads (BrokerHeartbeatManager.calculateNextBrokerState)."""
    current = current_state(broker)
    leads = context.image.topics.index.has_leaderships(broker.broker_id)
    match current:
        case BrokerState.FENCED:
            if request.want_shut_down:
                return BrokerState.SHUTDOWN_NOW
            caught_up = request.current_metadata_offset >= broker.broker_epoch
            return BrokerState.UNFENCED if caught_up and not request.want_fence else BrokerState.FENCED
        case BrokerState.UNFENCED:
            if request.want_fence:
                return BrokerState.SHUTDOWN_NOW if request.want_shut_down else BrokerState.FENCED
            if not request.want_shut_down:
                contact.shutdown_wanted_since_ms = None
                return BrokerState.UNFENCED
            if (yield from hold_back_shutdown(context, broker.broker_id, contact)):
                return BrokerState.UNFENCED
            return BrokerState.CONTROLLED_SHUTDOWN if leads else BrokerState.SHUTDOWN_NOW
        case BrokerState.CONTROLLED_SHUTDOWN:
            if contact.shutdown_offset < 0:  # a former controller began it: all it wrote is enough
                contact.shutdown_offset = context.next_offset - 1
            known = context.heartbeats.lowest_active_offset(context.image.cluster)
            may_go = not leads and contact.shutdown_offset <= known
            return BrokerState.SHUTDOWN_NOW if may_go else BrokerState.CONTROLLED_SHUTDOWN
        case BrokerState.SHUTDOWN_NOW:
            raise AssertionError("no registration is in this state")
        case _:
            assert_never(current)


def hold_back_shutdown(context: Context, broker_id: int, contact: BrokerHeartbeat) -> Steps[bool]:
    """Return whether a shutdown must wait for ISRs to grow; see the module docstring. Cost: its partitions."""
    if contact.shutdown_wanted_since_ms is None:
        contact.shutdown_wanted_since_ms = context.now_ms
    if context.now_ms - contact.shutdown_wanted_since_ms >= context.settings.shutdown_wait_ms_max:
        return False
    min_isrs: dict[bytes, int] = {}
    is_active = context.image.cluster.is_active
    for piece in pieces(context.image.topics.index.in_isr.get(broker_id) or ()):
        for topic, partition in map(context.image.topics.existing, piece):
            min_isr = min_isrs.get(topic.topic_id)
            if min_isr is None:
                min_isr = min_isrs[topic.topic_id] = context.effective_min_isr(topic)
            missing = [replica for replica in partition.replicas if replica not in partition.isr]
            if len(partition.isr) <= min_isr and any(map(is_active, missing)):
                return True
        yield
    return False


def offline_log_dir_records(
    context: Context, broker: BrokerRegistration, request: BrokerHeartbeatRequest
) -> Steps[list[MetadataRecord]]:
    """Return the changes caused by offline log directories: their replicas leave ISR and leadership (KIP-858).

    Replicas whose directory is not known yet stay until the broker assigns them (assign_directories). A heartbeat that
    fences the broker or shuts it down leaves this to the next one, which names the same directories again.
    """
    offline = [directory for directory in broker.log_dirs if directory in request.offline_log_dirs]
    if not offline:
        return []
    in_isr = yield from context.image.topics.index.partitions_with_in_isr(broker.broker_id)
    lost: list[TopicIdPartition] = []
    for piece in pieces(in_isr):
        directories = ((key, context.image.topics.existing(key)[1].directory(broker.broker_id)) for key in piece)
        lost += (key for key, directory in directories if directory in offline)
        yield
    records = yield from leader_and_isr_changes(context, lost, remove=broker.broker_id)
    online = tuple(directory for directory in broker.log_dirs if directory not in offline)
    records.append(
        BrokerRegistrationChange(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, log_dirs=online)
    )
    return records


def cordon_records(broker: BrokerRegistration, request: BrokerHeartbeatRequest) -> list[MetadataRecord]:
    """Note which log directories are cordoned, where that has changed; None in a heartbeat: not known yet (KIP-1066).

    Raises KafkaError INVALID_REQUEST (ReplicationControlManager.handleDirectoriesCordoned, KAFKA-20441).
    """
    if request.cordoned_log_dirs is None:
        return []
    unknown = [each for each in request.cordoned_log_dirs if each not in broker.log_dirs]
    if unknown:
        text = ", ".join(map(str, unknown))
        message = f"All cordoned directories must be existing directories. Found unknown directories: [{text}]"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    cordoned = tuple(sorted(set(request.cordoned_log_dirs)))
    if cordoned == broker.cordoned_log_dirs:
        return []
    change = BrokerRegistrationChange(
        broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, cordoned_log_dirs=cordoned
    )
    return [change]


def fence_stale_brokers(context: Context) -> Steps[Result[list[int]]]:
    """Fence the broker with the oldest heartbeat, if its session has expired; the answer names it.

    Call it again at once until it returns no broker (ReplicationControlManager.maybeFenceOneStaleBroker).
    """
    stale = context.heartbeats.stale_brokers(context.image.cluster, context.now_ms)[:BROKERS_FENCED_MAX]
    records: list[MetadataRecord] = []
    for broker_id in stale:
        records += yield from fence_records(context, broker_id)
    return Result(records=records, response=stale)


def fence_refused_broker(context: Context, broker_id: int, broker_epoch: int) -> Steps[Result[bool]]:
    """Fence a broker whose address refuses connections; returns whether that changed anything.

    `broker_epoch` is the incarnation that refused; one that registered since is not fenced. A false result costs a
    leadership change: the next heartbeat unfences.
    """
    broker = context.image.cluster.broker(broker_id)
    if broker is None or broker.fenced or broker.broker_epoch != broker_epoch:
        return Result(records=[], response=False)
    return Result(records=(yield from fence_records(context, broker_id)), response=True)
