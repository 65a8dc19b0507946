"""Features of the cluster over HTTP: supported and finalized levels, and changes (KIP-584, KIP-778)."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from kvorum.admin.http.operations import Call, NoBody, Operation
from kvorum.admin.http.parameters import VALIDATE_ONLY
from kvorum.admin.v1.models import INT32_MAX, Strict
from kvorum.client.features import UpgradeType, describe_features, update_features
from kvorum.protocol.errors import ErrorCode

INT16_MAX = 2**15 - 1
FEATURES_MAX = 100
KINDS = {
    "upgrade": UpgradeType.UPGRADE,
    "safe_downgrade": UpgradeType.SAFE_DOWNGRADE,
    "unsafe_downgrade": UpgradeType.UNSAFE_DOWNGRADE,
}
Name = Annotated[str, Field(min_length=1, max_length=249)]
Level = Annotated[int, Field(ge=0, le=INT16_MAX)]


class FeatureEntry(BaseModel):
    """A feature with its supported levels and its finalized level."""

    name: str = Field(examples=["transaction.version"])
    min_supported: int
    max_supported: int
    level: int = Field(description="Finalized level; 0: not finalized")
    epoch: int | None = Field(description="Metadata offset of this state; null: unknown")


class FeatureUpdate(Strict):
    """Feature levels to set; the update is atomic."""

    levels: dict[Name, Level] = Field(
        min_length=1,
        max_length=FEATURES_MAX,
        examples=[{"transaction.version": 2}],
        description="Level per feature; 0: disable",
    )
    kind: Literal["upgrade", "safe_downgrade", "unsafe_downgrade"] = Field(
        "upgrade", description="unsafe: permit a downgrade that loses metadata"
    )


async def list_features(call: Call[NoBody]) -> list[BaseModel]:
    """List the features, from one broker."""
    broker_id = call.optional_number("broker", 0, INT32_MAX)
    address = None if broker_id is None else await call.cluster.broker_address(broker_id)
    return [
        FeatureEntry(
            name=row.feature,
            min_supported=row.min_supported,
            max_supported=row.max_supported,
            level=row.finalized,
            epoch=row.epoch,
        )
        for row in await describe_features(call.cluster, address)
    ]


async def change_features(call: Call[FeatureUpdate]) -> None:
    """Change feature levels: all of the named ones, or none."""
    body = call.body
    outcome = await update_features(
        call.cluster, body.levels, KINDS[body.kind], validate_only=call.flag("validate_only")
    )
    for error in outcome.values():
        if error is not None:
            raise error


def features_state(rows: list[FeatureEntry]) -> object:
    """Return the state that a change could overwrite: the levels."""
    return [(row.name, row.level) for row in rows]


GET_FEATURES = Operation.get(
    "/v1/features",
    "List features",
    list_features,
    FeatureEntry,
    many=True,
    query={"broker": "the broker that is queried"},
    state=features_state,
)
OPERATIONS = [
    GET_FEATURES,
    GET_FEATURES.patch(
        "Change feature levels",
        change_features,
        FeatureUpdate,
        query=VALIDATE_ONLY,
        fields={
            ErrorCode.INVALID_UPDATE_VERSION: "levels",
            ErrorCode.FEATURE_UPDATE_FAILED: "levels",
            ErrorCode.INVALID_REQUEST: "levels",
        },
    ),
]
