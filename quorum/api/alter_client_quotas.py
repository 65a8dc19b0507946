"""AlterClientQuotas (49): v0-v1 (KIP-546, KIP-612). The rules: controller/client_quotas.py.

Order: authorise (ALTER_CONFIGS on the cluster), resolve the hosts among ip entities, decide, answer when committed.
"""

import asyncio

from kvorum.network.authorizer import Operation
from kvorum.network.context import RequestContext
from kvorum.network.ip_rates import is_address
from kvorum.protocol.errors import KafkaError
from kvorum.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from kvorum.quorum.controller.client_quotas import QuotaAlterations, alter_client_quotas, answer_row
from kvorum.quorum.image.client_quotas import IP, entity_of
from kvorum.quorum.services import ControllerServices

HOSTS_MAX = 100
"""Names that one request may have resolved; those behind them count as unresolved. Addresses need no resolving."""


async def handle(
    ctx: RequestContext, request: AlterClientQuotasRequest, services: ControllerServices
) -> AlterClientQuotasResponse:
    """Set and remove quotas."""
    try:
        services.authorize_cluster(ctx, Operation.ALTER_CONFIGS)
        alterations = QuotaAlterations(request=request, unresolved=await unresolved(request))
        return await services.submit(ctx, alter_client_quotas, alterations, name="alterClientQuotas")
    except KafkaError as error:
        return refused(request, error)


def refused(request: AlterClientQuotasRequest, error: KafkaError) -> AlterClientQuotasResponse:
    """Answer the same for every entity."""
    entities = [entity_of((part.entity_type, part.entity_name) for part in entry.entity) for entry in request.entries]
    return AlterClientQuotasResponse(entries=[answer_row(entity, error) for entity in entities])


async def unresolved(request: AlterClientQuotasRequest) -> frozenset[str]:
    """Return the names of ip entities that do not resolve to an address."""
    names = dict.fromkeys(
        part.entity_name
        for entry in request.entries
        for part in entry.entity
        if part.entity_type == IP and part.entity_name and not is_address(part.entity_name)
    )
    found: set[str] = set()
    for number, name in enumerate(names):
        if name is not None and (number >= HOSTS_MAX or not await is_resolvable(name)):
            found.add(name)
    return frozenset(found)


async def is_resolvable(host: str) -> bool:
    """Resolve a host, off the loop."""
    try:
        return bool(await asyncio.get_running_loop().getaddrinfo(host, None))
    except (OSError, UnicodeError):
        return False
