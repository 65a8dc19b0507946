"""Times of the brokers' last heartbeats: soft state of the active controller (Kafka's BrokerHeartbeatManager).

Sans-IO; never replicated: a new active controller starts without knowledge and gives every broker a new session
(`activate`). Fenced and shutting-down states are in the image, so an uncommitted decision leaves nothing here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kvorum.quorum.image.cluster import BrokerRegistration, ClusterImage

NO_OFFSET: Final = -1
OFFSET_MAX: Final = 2**63 - 1

NO_CONTACT_MS: Final = -(1 << 62)


@dataclass(slots=True)
class BrokerHeartbeat:
    """One broker's: its incarnation's epoch, the time of its last heartbeat, and its content. Times are monotonic."""

    broker_epoch: int
    last_contact_ms: int
    metadata_offset: int = NO_OFFSET
    """The last offset of the metadata log it has taken in."""
    shutdown_offset: int = NO_OFFSET
    """Others must have taken in this offset before it may go; NO_OFFSET outside controlled shutdown."""
    shutdown_wanted_since_ms: int | None = None


class BrokerHeartbeatManager:
    """The sessions of the registered brokers, owned by the active controller. At most as many as there are brokers."""

    def __init__(self, session_timeout_ms: int) -> None:
        """Hold broker.session.timeout.ms."""
        assert session_timeout_ms > 0, "a session lasts"
        self._session_timeout_ms = session_timeout_ms
        self._brokers: dict[int, BrokerHeartbeat] = {}

    def activate(self, cluster: ClusterImage, now_ms: int) -> None:
        """Start as the new active controller: every broker is considered to have just sent a heartbeat."""
        self._brokers = {broker.broker_id: BrokerHeartbeat(broker.broker_epoch, now_ms) for broker in _all(cluster)}

    def register(self, broker_id: int, broker_epoch: int, now_ms: int) -> None:
        """Start a session for an incarnation; one that registers again keeps its values."""
        existing = self._brokers.get(broker_id)
        if existing is None or existing.broker_epoch != broker_epoch:
            self._brokers[broker_id] = BrokerHeartbeat(broker_epoch, now_ms)
        else:
            existing.last_contact_ms = now_ms

    def touch(self, broker: BrokerRegistration, now_ms: int, metadata_offset: int) -> BrokerHeartbeat:
        """Record a heartbeat of this incarnation."""
        state = self._session(broker, now_ms)
        state.last_contact_ms = now_ms
        state.metadata_offset = metadata_offset
        return state

    def has_valid_session(self, broker: BrokerRegistration, now_ms: int) -> bool:
        """Return whether the registered incarnation is unfenced and has sent a heartbeat within the session timeout."""
        return not broker.fenced and not self._is_over(self._session(broker, now_ms), now_ms)

    def last_contact_ms(self, broker_id: int) -> int:
        """Return when a broker last sent a heartbeat; NO_CONTACT for one without a session."""
        state = self._brokers.get(broker_id)
        return NO_CONTACT_MS if state is None else state.last_contact_ms

    def stale_brokers(self, cluster: ClusterImage, now_ms: int) -> list[int]:
        """Return the unfenced brokers whose session is over, the longest silent first. Cost: the number of brokers."""
        for broker_id in [broker_id for broker_id in self._brokers if broker_id not in cluster.brokers]:
            del self._brokers[broker_id]
        late: list[tuple[int, int]] = []
        for broker in _all(cluster):
            state = self._session(broker, now_ms)
            if not broker.fenced and self._is_over(state, now_ms):
                late.append((state.last_contact_ms, broker.broker_id))
        return [broker_id for _, broker_id in sorted(late)]

    def next_check_ms(self, cluster: ClusterImage, now_ms: int) -> int | None:
        """Return when the first session of an unfenced broker expires without a heartbeat; None without one."""
        contacts = [self._session(broker, now_ms).last_contact_ms for broker in _all(cluster) if not broker.fenced]
        return min(contacts) + self._session_timeout_ms + 1 if contacts else None

    def lowest_active_offset(self, cluster: ClusterImage) -> int:
        """Return the metadata offset that all active brokers have taken in; OFFSET_MAX where none is active."""
        offsets = [self._metadata_offset(broker) for broker in _all(cluster) if broker.active]
        return min(offsets, default=OFFSET_MAX)

    def _session(self, broker: BrokerRegistration, now_ms: int) -> BrokerHeartbeat:
        """Return the session of the registered incarnation, a new one if its own is unknown.

        It is unknown if the registration of another incarnation was decided and not committed.
        """
        state = self._brokers.get(broker.broker_id)
        if state is None or state.broker_epoch != broker.broker_epoch:
            state = self._brokers[broker.broker_id] = BrokerHeartbeat(broker.broker_epoch, now_ms)
        return state

    def _is_over(self, state: BrokerHeartbeat, now_ms: int) -> bool:
        return state.last_contact_ms + self._session_timeout_ms < now_ms

    def _metadata_offset(self, broker: BrokerRegistration) -> int:
        state = self._brokers.get(broker.broker_id)
        return NO_OFFSET if state is None or state.broker_epoch != broker.broker_epoch else state.metadata_offset


def _all(cluster: ClusterImage) -> Iterable[BrokerRegistration]:
    return cluster.brokers.values()
