"""Quotas of clients over HTTP (KIP-546, KIP-612).

The entity is in the query, for reads and changes alike: `user`, `client_id` and `ip` name it, `default` lists types
whose default is meant (default=user,client_id), and a read may also use `any` for a type.
"""

from typing import Annotated
from urllib.parse import parse_qsl, urlencode

from pydantic import BaseModel, Field

from kvorum.admin.http.commands import Command
from kvorum.admin.http.operations import Call, NoBody, Operation, Rows
from kvorum.admin.http.paging import behind, next_query
from kvorum.admin.http.parameters import ROWS, VALIDATE_ONLY, BadInput, flag, optional_text, words
from kvorum.admin.v1.models import Strict
from kvorum.client.namespaces.quotas import Quotas
from kvorum.client.values.quota import CLIENT_ID, IP, USER, Quota
from kvorum.protocol.errors import ErrorCode

KINDS = {"user": USER, "client_id": CLIENT_ID, "ip": IP}
"""{API name of a type: name on the wire}."""
NAME_CHARS_MAX = 32_767
"""Kafka's longest string."""
DEFAULT, ANY = "", None
"""Placeholders for names, as for Quotas.list."""
KEYS_MAX = 100
"""The five kinds of quotas; the cluster rejects others."""
Key = Annotated[str, Field(min_length=1, max_length=249)]
Rate = Annotated[float, Field(allow_inf_nan=False)]


NAMES = (
    optional_text("user", "user name"),
    optional_text("client_id", "client id"),
    optional_text("ip", "IP address"),
)
DEFAULTS = words("default", "types whose default entity is meant, comma-separated: user, client_id, ip", list(KINDS))
ENTITY = (*NAMES, DEFAULTS)
ANY_NAME = words("any", "types with any name, comma-separated: user, client_id, ip", list(KINDS))
CONTAINING = flag("containing", "true: include entities with further types")
AFTER = optional_text("after", "position from the Link header of the previous page")


class QuotaPart(BaseModel):
    """One component of a quota entity."""

    type: str = Field(examples=["user", "client_id", "ip"])
    name: str | None = Field(description="null: the default of the type")


class QuotaEntry(BaseModel):
    """The quotas of one entity: a user, a client id, both, or an IP address."""

    entity: list[QuotaPart]
    quotas: dict[str, float] = Field(examples=[{"producer_byte_rate": 1048576.0}])


class QuotaAlter(Strict):
    """Changes of an entity's quotas; other quotas are unchanged."""

    set: dict[Key, Rate] = Field(
        default_factory=dict,
        max_length=KEYS_MAX,
        examples=[{"producer_byte_rate": 1048576, "request_percentage": 50}],
        description="producer_byte_rate, consumer_byte_rate, request_percentage or controller_mutation_rate; "
        "of an IP address connection_creation_rate",
    )
    delete: list[Key] = Field(default_factory=list, max_length=KEYS_MAX, description="Quotas to remove")


def entity_of(call: Call[NoBody] | Call[QuotaAlter]) -> dict[str, str | None]:
    """Return {type on the wire: name, DEFAULT or ANY} of the query. Raises BadInput."""
    entity: dict[str, str | None] = {}
    named: list[tuple[str, str, str | None]] = [
        *((each.name, each.name, each.of(call)) for each in NAMES if each.is_given(call)),
        *(("default", kind, DEFAULT) for kind in DEFAULTS.of(call)),
        *(("any", kind, ANY) for kind in ANY_NAME.of(call)),
    ]
    for parameter, kind, name in named:
        if parameter == kind and not 0 < len(name or "") <= NAME_CHARS_MAX:
            raise BadInput(
                kind, f"a name has 1 to {NAME_CHARS_MAX} characters; use default={kind} for the default quota"
            )
        if KINDS[kind] in entity:
            raise BadInput(parameter, f"{kind} is given more than once")
        entity[KINDS[kind]] = name
    return entity


def parse_entity(call: Call[NoBody] | Call[QuotaAlter]) -> dict[str, str | None]:
    """Return the requested entity {type on the wire: name, None for the default}. Raises BadInput."""
    entity = entity_of(call)
    if not entity:
        raise BadInput("user", "give a user, client_id or ip, or default=TYPE")
    return {kind: name or None for kind, name in entity.items()}


def quota_entry(found: Quota) -> QuotaEntry:
    """Return one entity's quotas for HTTP, the types in the order of KINDS."""
    parts = [QuotaPart(type=here, name=found.entity[wire]) for here, wire in KINDS.items() if wire in found.entity]
    return QuotaEntry(entity=parts, quotas=dict(found.values))


async def list_quotas(call: Call[NoBody]) -> Rows:
    """List all quotas, or those of entities with exactly the given types and names.

    `containing` includes entities with further types: user=alice then also matches alice with each client id.
    """
    entity, containing = entity_of(call), CONTAINING.of(call)
    limit, after = ROWS.of(call), AFTER.of(call)
    begun = None if after is None else sorted(parse_qsl(after, keep_blank_values=True))
    found = await Quotas(call.cluster).list(entity, strict=bool(entity) and not containing)
    page, more = behind(found, lambda quota: quota.entity_key, begun, limit)
    going_on = next_query(call, urlencode(page[-1].entity_key)) if more else None
    return Rows(rows=[quota_entry(each) for each in page], next_query=going_on)


async def alter_entity_quotas(call: Call[QuotaAlter]) -> None:
    """Set and remove quotas of one entity."""
    body = call.body
    if not body.set and not body.delete:
        raise BadInput("set", "nothing to change: give set or delete")
    both = sorted(body.set.keys() & set(body.delete))
    if both:
        raise BadInput("delete", f"{both[0]!r} is both in set and in delete")
    removed = list(dict.fromkeys(body.delete))
    await Quotas(call.cluster).alter(parse_entity(call), body.set, remove=removed, validate_only=VALIDATE_ONLY.of(call))


async def delete_entity_quotas(call: Call[NoBody]) -> None:
    """Remove all quotas of one entity. An entity without quotas is no error."""
    entity, only = parse_entity(call), VALIDATE_ONLY.of(call)
    quotas = Quotas(call.cluster)
    for each in await quotas.list({kind: name or DEFAULT for kind, name in entity.items()}):
        await quotas.alter(entity, remove=each.values, validate_only=only)


def quotas_state(rows: list[QuotaEntry]) -> object:
    """Return the part of listed quotas that a change could overwrite: all of it."""
    return [([(part.type, part.name) for part in row.entity], sorted(row.quotas.items())) for row in rows]


QUOTAS = "/v1/quotas"
FIELDS = {ErrorCode.INVALID_REQUEST: "set"}
GET_QUOTAS = Operation.get(
    QUOTAS,
    "List quotas",
    list_quotas,
    QuotaEntry,
    many=True,
    parameters=(*ENTITY, ANY_NAME, CONTAINING, AFTER, ROWS),
    state=quotas_state,
    command=Command(
        name="quotas list",
        examples=("", "--user alice -o json", "--any client_id"),
        columns=("entity", "quotas"),
    ),
)
OPERATIONS = [
    GET_QUOTAS,
    GET_QUOTAS.patch(
        "Set and remove quotas of an entity",
        alter_entity_quotas,
        QuotaAlter,
        parameters=(*ENTITY, VALIDATE_ONLY),
        fields=FIELDS,
        command=Command(
            name="quotas alter",
            examples=(
                "--user alice --client-id app --set producer_byte_rate=1048576 --set consumer_byte_rate=2097152",
                "--default user --set request_percentage=50",
                "--ip 10.0.0.7 --delete connection_creation_rate",
            ),
            done="quotas changed",
        ),
    ),
    Operation(
        method="DELETE",
        path=QUOTAS,
        summary="Remove all quotas of an entity",
        handle=delete_entity_quotas,
        status=204,
        parameters=(*ENTITY, VALIDATE_ONLY),
        guard=GET_QUOTAS,
        command=Command(name="quotas delete", examples=("--user alice", "--default client_id"), done="quotas deleted"),
    ),
]
