"""A broker's APIs with their versions, and its features, over HTTP."""

from pydantic import BaseModel, Field

from kvorum.admin.http.operations import Call, NoBody, Operation
from kvorum.admin.v1.cluster.cluster_routes import broker_id
from kvorum.client.features import ask_versions, features_in
from kvorum.client.wire.cluster_client import refuse
from kvorum.protocol.api import ApiKey


class ApiRange(BaseModel):
    """An API of a broker with its supported versions."""

    key: int
    name: str = Field(examples=["FETCH"], description="Kafka's name; the number if the API is unknown")
    min_version: int
    max_version: int


class FeatureRange(BaseModel):
    """A feature with the levels that a broker supports, and its finalized level."""

    name: str
    min_supported: int
    max_supported: int
    level: int = Field(description="Finalized level; 0: none")


class ApiVersions(BaseModel):
    """APIs and features of a broker (KIP-511, KIP-584)."""

    broker: int
    apis: list[ApiRange]
    features: list[FeatureRange]
    finalized_epoch: int | None = Field(description="Metadata offset of `level`; null: unknown")


async def get_api_versions(call: Call[NoBody]) -> ApiVersions:
    """Return the APIs with their versions, and the features, of this broker."""
    wanted = broker_id(call)
    answer = await ask_versions(call.cluster, await call.cluster.broker_address(wanted))
    refuse(answer.error_code, f"broker {wanted}")
    epoch = answer.finalized_features_epoch
    return ApiVersions(
        broker=wanted,
        apis=[
            ApiRange(
                key=each.api_key,
                name=api_name(each.api_key),
                min_version=each.min_version,
                max_version=each.max_version,
            )
            for each in sorted(answer.api_keys, key=lambda each: each.api_key)
        ],
        features=[
            FeatureRange(
                name=row.feature,
                min_supported=row.min_supported,
                max_supported=row.max_supported,
                level=row.finalized,
            )
            for row in features_in(answer)
        ],
        finalized_epoch=None if epoch < 0 else epoch,
    )


def api_name(key: int) -> str:
    """Return Kafka's name of a request."""
    return ApiKey(key).name if key in ApiKey.__members__.values() else str(key)


OPERATIONS = [
    Operation.get("/v1/brokers/{broker}/api-versions", "Get a broker's API versions", get_api_versions, ApiVersions),
]
