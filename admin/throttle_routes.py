"""Throttles of replication over HTTP: whom they hold now, and how they are taken off by hand (KIP-73).

They are configs of brokers, and stay until somebody takes them away: who began a move with one may be gone by then.
"""

import asyncio

from kvorum.admin.client import ResourceType, Unreachable
from kvorum.admin.log_dir_moves import LOG_DIRS_RATE
from kvorum.admin.operations import Call, NoBody, Operation
from kvorum.admin.places import Place
from kvorum.admin.reassignment_models import BrokerThrottle, Throttles, Unthrottled
from kvorum.admin.reassignments import RATES, Reassignments
from kvorum.admin.topic_configs import Source
from kvorum.protocol.errors import KafkaError

SET = (Source.DYNAMIC_BROKER_CONFIG, Source.DYNAMIC_DEFAULT_BROKER_CONFIG)


async def get_throttles(call: Call[NoBody]) -> Throttles:
    """Tell which brokers copy slower than they could, and how fast at the most."""

    async def of(broker: int) -> BrokerThrottle | None:
        try:
            rows = await call.cluster.describe_configs(ResourceType.BROKER, str(broker))
        except (KafkaError, Unreachable):
            return None  # it is listed as silent
        rates = {
            row.name: int(row.value) for row in rows if row.config_source in SET and row.name in KEYS and row.value
        }
        leader, follower, log_dirs = (rates.get(key) for key in KEYS)
        return BrokerThrottle(
            broker=broker,
            leader_bytes_per_second=leader,
            follower_bytes_per_second=follower,
            log_dirs_bytes_per_second=log_dirs,
        )

    brokers = list(await Reassignments(call.cluster).brokers())
    found = await asyncio.gather(*(of(broker) for broker in brokers))
    return Throttles(
        brokers=[each for each in found if each is not None and len(each.model_dump(exclude_none=True)) > 1],
        silent=[broker for broker, each in zip(brokers, found, strict=True) if each is None],
    )


async def delete_throttles(call: Call[NoBody]) -> Unthrottled:
    """Take the throttles off all brokers that are there, and off the topics that are named.

    What is under way goes on as fast as it can. A topic's list of throttled replicas does nothing without a rate.
    """
    wanted = {Place(topic, 0): [0] for topic in call.words("topics")}
    brokers, topics = await Reassignments(call.cluster).unthrottle(wanted)
    return Unthrottled(brokers=brokers, topics=topics)


KEYS = (*RATES, LOG_DIRS_RATE)
THROTTLE = "/v1/reassignments/throttle"
OPERATIONS = [
    Operation.get(THROTTLE, "Throttles of replication that are set", get_throttles, Throttles),
    Operation(
        method="DELETE",
        path=THROTTLE,
        summary="Take the throttles off",
        handle=delete_throttles,
        answer=Unthrottled,
        query={"topics": "whose lists of throttled replicas go, too; comma-separated"},
    ),
]
