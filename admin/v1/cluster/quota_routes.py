"""Quotas of clients over HTTP (KIP-546, KIP-612).

The entity is in the query, for reads and changes alike: `user`, `client_id` and `ip` name it, `default` lists types
whose default is meant (default=user,client_id), and a read may also use `any` for a type.
"""

from typing import Annotated
from urllib.parse import parse_qsl, urlencode

from pydantic import BaseModel, Field

from kvorum.admin.http.operations import BadInput, Call, NoBody, Operation, Rows
from kvorum.admin.http.paging import ROWS, behind, following
from kvorum.admin.http.parameters import VALIDATE_ONLY
from kvorum.admin.v1.models import Strict
from kvorum.client.quotas import CLIENT_ID, IP, USER, Quotas, alter_quotas, describe_quotas, entity_key
from kvorum.protocol.errors import ErrorCode

KINDS = {"user": USER, "client_id": CLIENT_ID, "ip": IP}
"""{API name of a type: name on the wire}."""
NAME_CHARS_MAX = 32_767
"""Kafka's longest string."""
DEFAULT, ANY = "", None
"""Placeholders for names, as for describe_quotas."""
KEYS_MAX = 100
"""The five kinds of quotas; the cluster rejects others."""
Key = Annotated[str, Field(min_length=1, max_length=249)]
Rate = Annotated[float, Field(allow_inf_nan=False)]


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
        default_factory=dict, max_length=KEYS_MAX, examples=[{"producer_byte_rate": 1048576, "request_percentage": 50}]
    )
    delete: list[Key] = Field(default_factory=list, max_length=KEYS_MAX)


def entity_of(call: Call[NoBody] | Call[QuotaAlter]) -> dict[str, str | None]:
    """Return {type on the wire: name, DEFAULT or ANY} of the query. Raises BadInput."""
    entity: dict[str, str | None] = {}
    named: list[tuple[str, str, str | None]] = [
        *((kind, kind, call.query[kind]) for kind in KINDS if kind in call.query),
        *(("default", kind, DEFAULT) for kind in call.words("default", list(KINDS))),
        *(("any", kind, ANY) for kind in call.words("any", list(KINDS))),
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


def named_entity(call: Call[NoBody] | Call[QuotaAlter]) -> dict[str, str | None]:
    """Return the requested entity {type on the wire: name, None for the default}. Raises BadInput."""
    entity = entity_of(call)
    if not entity:
        raise BadInput("user", "give a user, client_id or ip, or default=TYPE")
    return {kind: name or None for kind, name in entity.items()}


def shown(found: Quotas) -> QuotaEntry:
    """Return one entity's quotas for HTTP, the types in the order of KINDS."""
    parts = [QuotaPart(type=here, name=found.entity[wire]) for here, wire in KINDS.items() if wire in found.entity]
    return QuotaEntry(entity=parts, quotas=found.values)


async def list_quotas(call: Call[NoBody]) -> Rows:
    """List all quotas, or those of entities with exactly the given types and names.

    `containing` includes entities with further types: user=alice then also matches alice with each client id.
    """
    entity, containing = entity_of(call), call.flag("containing")
    limit, after = ROWS.of(call), call.query.get("after")
    begun = None if after is None else sorted(parse_qsl(after, keep_blank_values=True))
    found = await describe_quotas(call.cluster, entity, strict=bool(entity) and not containing)
    page, more = behind(found, entity_key, begun, limit)
    going_on = following(call, urlencode(entity_key(page[-1]))) if more else None
    return Rows(rows=[shown(each) for each in page], following=going_on)


async def alter_entity_quotas(call: Call[QuotaAlter]) -> None:
    """Set and remove quotas of one entity."""
    body = call.body
    if not body.set and not body.delete:
        raise BadInput("set", "nothing to change: give set or delete")
    both = sorted(body.set.keys() & set(body.delete))
    if both:
        raise BadInput("delete", f"{both[0]!r} is both in set and in delete")
    removed = list(dict.fromkeys(body.delete))
    await alter_quotas(call.cluster, named_entity(call), body.set, removed, validate_only=call.flag("validate_only"))


async def delete_entity_quotas(call: Call[NoBody]) -> None:
    """Remove all quotas of one entity. An entity without quotas is no error."""
    entity, only = named_entity(call), call.flag("validate_only")
    wanted = {kind: name or DEFAULT for kind, name in entity.items()}
    for each in await describe_quotas(call.cluster, wanted):
        await alter_quotas(call.cluster, entity, {}, list(each.values), validate_only=only)


def quotas_state(rows: list[QuotaEntry]) -> object:
    """Return the part of listed quotas that a change could overwrite: all of it."""
    return [([(part.type, part.name) for part in row.entity], sorted(row.quotas.items())) for row in rows]


QUOTAS = "/v1/quotas"
WHOSE = {
    "user": "user name",
    "client_id": "client id",
    "ip": "IP address",
    "default": "types whose default entity is meant, comma-separated: user, client_id, ip",
}
FIELDS = {ErrorCode.INVALID_REQUEST: "set"}
GET_QUOTAS = Operation.get(
    QUOTAS,
    "List quotas",
    list_quotas,
    QuotaEntry,
    many=True,
    query={
        **WHOSE,
        "any": "types with any name, comma-separated: user, client_id, ip",
        "containing": "true: include entities with further types",
        "after": "position from the Link header of the previous page",
        **ROWS.documentation,
    },
    state=quotas_state,
)
OPERATIONS = [
    GET_QUOTAS,
    GET_QUOTAS.patch(
        "Set and remove quotas of an entity",
        alter_entity_quotas,
        QuotaAlter,
        query={**WHOSE, **VALIDATE_ONLY},
        fields=FIELDS,
    ),
    Operation(
        method="DELETE",
        path=QUOTAS,
        summary="Remove all quotas of an entity",
        handle=delete_entity_quotas,
        status=204,
        query={**WHOSE, **VALIDATE_ONLY},
        guard=GET_QUOTAS,
    ),
]
