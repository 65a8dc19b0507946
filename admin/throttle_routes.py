"""Throttles of replication over HTTP: whom they hold now, and how they are taken off by hand (KIP-73).

They are configs of brokers and topics, and stay until somebody takes them away: who began a move with one may be gone.
"""

import asyncio

from pydantic import BaseModel, Field

from kvorum.admin.client import ResourceType, Unreachable
from kvorum.admin.log_dir_moves import LOG_DIRS_RATE
from kvorum.admin.operations import Call, NoBody, Operation
from kvorum.admin.reassignments import RATES, Reassignments
from kvorum.admin.topic_configs import Source
from kvorum.protocol.errors import KafkaError

KEYS = (*RATES, LOG_DIRS_RATE)
SET = (Source.DYNAMIC_BROKER_CONFIG, Source.DYNAMIC_DEFAULT_BROKER_CONFIG)


class BrokerThrottle(BaseModel):
    """What a broker copies at the most, in bytes a second; null: as fast as it can."""

    broker: int
    leader_rate: int | None = Field(description="Of records that others fetch from its throttled replicas")
    follower_rate: int | None = Field(description="Of records that its throttled replicas fetch")
    log_dirs_rate: int | None = Field(description="Between its log directories")


class Throttle(BaseModel):
    """The throttles that are set, whoever set them."""

    brokers: list[BrokerThrottle]
    unreachable: list[int] = Field(description="Brokers that did not tell")


async def get_throttle(call: Call[NoBody]) -> Throttle:
    """Tell which brokers copy slower than they could, and how fast at the most."""
    brokers = list(await Reassignments(call.cluster).brokers())
    found = await asyncio.gather(*(throttle_of(call, broker) for broker in brokers))
    throttled = [each for each in found if each is not None and each.model_dump(exclude_none=True).keys() != {"broker"}]
    silent = [broker for broker, each in zip(brokers, found, strict=True) if each is None]
    return Throttle(brokers=throttled, unreachable=silent)


async def throttle_of(call: Call[NoBody], broker: int) -> BrokerThrottle | None:
    """Return a broker's rates; None where it does not tell."""
    try:
        rows = await call.cluster.describe_configs(ResourceType.BROKER, str(broker))
    except (KafkaError, Unreachable):
        return None  # it is told of as one that did not tell
    rates = {row.name: int(row.value) for row in rows if row.config_source in SET and row.name in KEYS and row.value}
    leader, follower, log_dirs = (rates.get(key) for key in KEYS)
    return BrokerThrottle(broker=broker, leader_rate=leader, follower_rate=follower, log_dirs_rate=log_dirs)


async def delete_throttle(call: Call[NoBody]) -> Throttle:
    """Take the throttles off all brokers that are there, and the topics that are being moved; answer what there was."""
    before, found = await get_throttle(call), Reassignments(call.cluster)
    await found.unthrottle({place: each.replicas for place, each in (await found.under_way()).items()})
    return before


THROTTLE = "/v1/reassignments/throttle"
OPERATIONS = [
    Operation.get(THROTTLE, "Throttles of replication that are set", get_throttle, Throttle),
    Operation(
        method="DELETE", path=THROTTLE, summary="Take the throttles off", handle=delete_throttle, answer=Throttle
    ),
]
