"""The list of topics: by name or problem, sorted, with sizes, in pages."""

import fnmatch
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kvorum.admin.http.commands import Command
from kvorum.admin.http.operations import Call, NoBody, Operation
from kvorum.admin.http.paging import behind
from kvorum.admin.http.parameters import PAGE, BadInput, choice, flag, optional_text, text
from kvorum.admin.v1.topics.topic_models import TopicLine, TopicPage
from kvorum.admin.v1.topics.topic_routes import summary
from kvorum.client.partitions.replication import NOTHING, ReassignmentMap, fetch_reassignments
from kvorum.client.partitions.topic_sizes import TopicSize, topic_sizes
from kvorum.client.values.topic import Topic, topic_value
from kvorum.client.wire.cluster_client import ClusterClient, ResourceType, Unreachable
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from kvorum.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    RequestCursor,
)
from kvorum.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from kvorum.runtime.logs import get_logger

NAME: Final = "name"
SIZE: Final = "size"
DAMAGE: Final = "under_replicated"
ORDERS: Final = (NAME, SIZE, "partitions", DAMAGE)
ASK_MS: Final = 1_000
"""A controller responds within milliseconds; without one the list is returned without its data."""
SHORT_PAGE: Final = 200
"""Largest page that is requested from the broker; a larger one is cut out of the complete list."""
PAGE_PARTITIONS_MIN: Final = 64
PAGE_PARTITIONS_MAX: Final = 2_000
"""Limit per request; Kafka's max.request.partition.size.limit."""
LISTED_CONFIGS: Final = ("cleanup.policy", "retention.ms", "retention.bytes")
TOPICS_MAX: Final = 500
"""Topics of one DescribeConfigs request."""
Sizes = Mapping[str, TopicSize]
log = get_logger("admin")


FILTER = text("filter", "a name, with * and ?", "*")
INTERNAL = flag("internal", "true: include internal topics")
UNDER_REPLICATED = flag("under_replicated", "true: only topics with under-replicated partitions")
SIZES = flag("sizes", "true: include sizes on disk")
CONFIGS = flag("configs", f"true: include {', '.join(LISTED_CONFIGS)}")
ORDER = choice("order", f"{NAME} (default), or descending: {', '.join(ORDERS[1:])}", ORDERS, NAME)
AFTER = optional_text("after", "start after this name; in other orders: the `next` of the previous page")


class Key(NamedTuple):
    """Position of a topic in the order: largest first, then by name."""

    less: int
    name: str

    @property
    def text(self) -> str:
        """Value of the parameter `after`: only the name if that is the order."""
        return f"{-self.less}:{self.name}" if self.less <= 0 else self.name


async def list_topics(call: Call[NoBody]) -> TopicPage:
    """List topics in pages: by name, or by descending size, number of partitions or under-replicated partitions.

    `next` is the `after` of the next page. Sizes are requested from all brokers. Current reassignments are requested
    from the controller, with a short timeout: `reassigning_known` is false without a response.
    """
    limit, pattern, order = PAGE.of(call), FILTER.of(call), ORDER.of(call)
    internal, damaged, sized = INTERNAL.of(call), UNDER_REPLICATED.of(call), SIZES.of(call)
    configured = CONFIGS.of(call)
    plain = order == NAME and pattern == "*" and not (damaged or sized or configured)
    after = key_after(call, order)
    if plain and limit <= SHORT_PAGE:
        short = await short_page(call.cluster, after.name if after is not None else None, limit, internal)
        if short is not None:
            return short
    metadata = await call.cluster.metadata()
    matching = {
        topic.name: topic
        for topic in metadata.topics
        if topic.name and fnmatch.fnmatchcase(topic.name, pattern) and (internal or not topic.is_internal)
    }
    by_damage = damaged or order == DAMAGE
    moving: ReassignmentMap | None = NOTHING
    damage: dict[str, int] = {}
    if by_damage:
        moving = await fetch_reassignments(call.cluster, matching.values(), ASK_MS)
        damage = {
            name: topic_value(topic, moving or NOTHING).under_replicated_count for name, topic in matching.items()
        }
    found = {name: topic for name, topic in matching.items() if not damaged or damage[name]}
    sizes: Sizes = {}
    if order == SIZE:
        sizes = await topic_sizes(call.cluster, metadata, list(found.values()))
    keys, more = behind(sorted(key_of(topic, order, sizes, damage) for topic in found.values()), same, after, limit)
    page = [found[key.name] for key in keys]
    configs = await configs_of(call.cluster, [key.name for key in keys]) if configured else {}
    if not by_damage:
        moving = await fetch_reassignments(call.cluster, page, ASK_MS)
    if sized and order != SIZE:
        sizes = await topic_sizes(call.cluster, metadata, page)
    return TopicPage(
        topics=[line_of(topic_value(topic, moving or NOTHING), sizes, configs) for topic in page],
        next=keys[-1].text if more else None,
        reassigning_known=moving is not None,
    )


async def short_page(cluster: ClusterClient, after: str | None, limit: int, internal: bool) -> TopicPage | None:
    """Return a page by name at a cost proportional to its topics; None if brokers do not support pages."""
    found: list[MetadataResponseTopic] = []
    first = None if after is None else RequestCursor(topic_name=f"{after}\0", partition_index=0)
    partitions = PAGE_PARTITIONS_MIN
    try:
        while True:
            request = DescribeTopicPartitionsRequest(response_partition_limit=partitions, cursor=first)
            answer = await cluster.ask(request, DescribeTopicPartitionsResponse)
            for each in answer.topics:
                add_partitions(found, each)
            following = answer.next_cursor
            if not internal:
                found = [each for each in found if not each.is_internal]
            whole = len(found) - 1 if following is not None and following.partition_index else len(found)
            if following is None or whole > limit:
                break
            first = RequestCursor(topic_name=following.topic_name, partition_index=following.partition_index)
            partitions = min(2 * partitions, PAGE_PARTITIONS_MAX)
    except KafkaError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
        return None
    page = found[:limit]
    moving = await fetch_reassignments(cluster, page, ASK_MS)
    return TopicPage(
        topics=[line_of(topic_value(topic, moving or NOTHING), {}, {}) for topic in page],
        next=page[-1].name if len(found) > limit else None,
        reassigning_known=moving is not None,
    )


def add_partitions(found: list[MetadataResponseTopic], described: DescribeTopicPartitionsResponseTopic) -> None:
    """Add a topic to a list, or more partitions to its last one."""
    if described.error_code:
        return  # deleted meanwhile
    if not found or found[-1].name != described.name:
        found.append(
            MetadataResponseTopic(
                name=described.name, topic_id=described.topic_id, is_internal=described.is_internal, partitions=[]
            )
        )
    found[-1].partitions.extend(
        MetadataResponsePartition(
            partition_index=row.partition_index,
            leader_id=row.leader_id,
            replica_nodes=row.replica_nodes,
            isr_nodes=row.isr_nodes,
        )
        for row in described.partitions
    )


def same(key: Key) -> Key:
    """Return a key without its sort direction."""
    return key


def key_of(topic: MetadataResponseTopic, order: str, sizes: Sizes, damage: Mapping[str, int]) -> Key:
    """Return the sort key of a topic; topics of unknown size come after empty ones."""
    name = topic.name or ""
    if order == NAME:
        return Key(1, name)
    if order == SIZE:
        size = sizes[name].leaders
        return Key(0 if size is None else -size - 1, name)
    return Key(-damage[name] if order == DAMAGE else -len(topic.partitions), name)


def key_after(call: Call[NoBody], order: str) -> Key | None:
    """Return the key that the page begins behind, None from the first on. Raises BadInput."""
    text = AFTER.of(call)
    if text is None:
        return None
    if order == NAME:
        return Key(1, text)
    number, colon, name = text.partition(":")
    if not colon or not number.isascii() or not number.isdecimal() or len(number) > 19:
        raise BadInput("after", f"with order {order}, expected `next` of the previous page")
    return Key(-int(number), name)


async def configs_of(cluster: ClusterClient, topics: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return {topic: the listed configs in force}; topics whose configs are not available are left out."""
    found: dict[str, dict[str, str]] = {}
    for start in range(0, len(topics), TOPICS_MAX):
        resources = [
            DescribeConfigsResource(
                resource_type=ResourceType.TOPIC, resource_name=name, configuration_keys=list(LISTED_CONFIGS)
            )
            for name in topics[start : start + TOPICS_MAX]
        ]
        try:
            answer = await cluster.ask(
                DescribeConfigsRequest(resources=resources), DescribeConfigsResponse, timeout_ms=cluster.part_ms
            )
        except (KafkaError, Unreachable) as error:
            log.info("configs of topics not available", error=error)
            break
        for row in answer.results:
            if not row.error_code:
                found[row.resource_name] = {each.name: each.value or "" for each in row.configs}
    return found


def line_of(topic: Topic, sizes: Sizes, configs: Mapping[str, dict[str, str]]) -> TopicLine:
    """Return a topic with its size and configs, where they are known."""
    size = sizes.get(topic.name)
    return TopicLine(
        **summary(topic).model_dump(),
        configs=configs.get(topic.name),
        size_bytes=None if size is None else size.leaders,
        replicas_bytes=None if size is None else size.replicas,
    )


OPERATIONS = [
    Operation.get(
        "/v1/topics",
        "List topics",
        list_topics,
        TopicPage,
        parameters=(FILTER, INTERNAL, UNDER_REPLICATED, SIZES, CONFIGS, ORDER, AFTER, PAGE),
        command=Command(
            name="topics list",
            text="List topics: by name, or by descending size, partitions or under-replicated partitions.",
            arguments=("filter",),
            examples=("", "'orders-*' --under-replicated", "--internal --order size -o json"),
            rows="topics",
            columns=(
                *("name", "partitions", "replication_factor", "under_replicated"),
                *("size_bytes?", "replicas_bytes?", "configs?"),
            ),
        ),
    )
]
