"""Phases of a coordinator's partition, with the error that clients receive in each.

    CLOSED ---lead(epoch)---> LOADING ---log replayed---> ACTIVE
    LOADING, ACTIVE --resign / another epoch / deleted--> CLOSED
    LOADING --the log cannot be read--> FAILED          ACTIVE --another writer------> LOADING

CLOSED   another broker leads, or none: NOT_COORDINATOR.
LOADING  COORDINATOR_LOAD_IN_PROGRESS.
ACTIVE   decisions are taken on the newest state, replayed at once, appended at the end of this turn of the event loop,
         and answered when the high watermark has passed them. Reads answer from the committed state.
FAILED   NOT_COORDINATOR, until the next epoch.

Source: Kafka's CoordinatorRuntime.CoordinatorState.
"""

from enum import Enum

from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.topic_partition import TopicPartition


class Phase(Enum):
    """Phase of a coordinator's partition (table in the module docstring)."""

    CLOSED = "closed"
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"


def refusal_in(phase: Phase, key: TopicPartition) -> KafkaError:
    """Return the error of a partition in any phase but ACTIVE."""
    if phase is Phase.LOADING:
        return KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{key} is being loaded")
    return KafkaError(ErrorCode.NOT_COORDINATOR, f"{key} is not led here")
