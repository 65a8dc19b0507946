"""DescribeClientQuotas (48): v0-v1 (KIP-546, KIP-612). Answered from this broker's own metadata.

Without components everything matches; strict: only entities that have no other types than the requested ones.
Order: authorise (DESCRIBE_CONFIGS on the cluster), check the components, look.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kvorum.broker.services import Broker, BrokerApi
from kvorum.network.authorizer import CLUSTER_NAME, Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from kvorum.quorum.image.client_quotas import CLIENT_ID, IP, USER, Entity

MATCH_EXACT: Final = 0
MATCH_DEFAULT: Final = 1
MATCH_SPECIFIED: Final = 2
"""DescribeClientQuotasRequest.MATCH_TYPE_*: this name, the default, or whatever there is."""
MATCH_NAMES: Final[Mapping[int, str]] = MappingProxyType(
    {
        MATCH_EXACT: "MATCH_TYPE_EXACT",
        MATCH_DEFAULT: "MATCH_TYPE_DEFAULT",
        MATCH_SPECIFIED: "MATCH_TYPE_SPECIFIED",
    }
)

ANY_NAME: Final = object()


def handle(ctx: RequestContext, request: DescribeClientQuotasRequest, broker: Broker) -> DescribeClientQuotasResponse:
    """Describe the quotas of the entities that match."""
    try:
        if not broker.authorizer.authorize(ctx, Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
        wanted = wanted_of(request.components)
    except KafkaError as error:
        return DescribeClientQuotasResponse(
            throttle_time=broker.throttle(ctx), error_code=error.code, error_message=error.message, entries=None
        )
    found = [
        described(entity, quotas)
        for entity, quotas in broker.metadata.image.client_quotas.sorted_entities()
        if matches(entity, wanted, strict=request.strict)
    ]
    return DescribeClientQuotasResponse(throttle_time=broker.throttle(ctx), entries=found)


def wanted_of(components: list[ComponentData]) -> dict[str, object]:
    """Return {entity type: name, None for the default, or ANY_NAME}. Raises KafkaError as Kafka's ClientQuotasImage."""
    wanted: dict[str, object] = {}
    for component in components:
        kind = component.entity_type
        if not kind:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in wanted:
            message = f"Entity type {kind} cannot appear more than once in the filter."
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        if kind not in (IP, USER, CLIENT_ID):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        wanted[kind] = wanted_name(component)
    if IP in wanted and len(wanted) > 1:
        problem = "IP filter component should not be used with user or clientId filter component."
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Invalid entity filter component combination. {problem}")
    return wanted


def wanted_name(component: ComponentData) -> object:
    """Return what name a component wants. Raises KafkaError INVALID_REQUEST."""
    kind, name = component.match_type, component.match
    if kind not in MATCH_NAMES:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown match type {kind}")
    if kind == MATCH_EXACT:
        if name is None:
            problem = "Request specified MATCH_TYPE_EXACT, but set match string to null."
            raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
        return name
    if name is not None:
        problem = f"Request specified {MATCH_NAMES[kind]}, but also specified a match string."
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
    return None if kind == MATCH_DEFAULT else ANY_NAME


def matches(entity: Entity, wanted: Mapping[str, object], *, strict: bool) -> bool:
    """Return whether an entity has all wanted components, and if `strict` no others."""
    names = dict(entity)
    if strict and names.keys() != wanted.keys():
        return False
    return all(kind in names and (name is ANY_NAME or names[kind] == name) for kind, name in wanted.items())


def described(entity: Entity, quotas: Mapping[str, float]) -> EntryData:
    """Return one entity's row."""
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        values=[ValueData(key=key, value=value) for key, value in sorted(quotas.items())],
    )


HANDLER = BrokerApi(ApiKey.DESCRIBE_CLIENT_QUOTAS, handle)
