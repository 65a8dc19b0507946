"""Log levels of a running broker over HTTP (KIP-412): in force at once, and until it is started again."""

from typing import Annotated

from pydantic import BaseModel, Field

from kvorum.admin.http.operations import BadInput, Call, NoBody, Operation, Role
from kvorum.admin.http.parameters import VALIDATE_ONLY
from kvorum.admin.v1.cluster.cluster_routes import broker_id
from kvorum.admin.v1.models import Strict
from kvorum.client.wire.cluster_client import ConfigChange, ConfigOperation, ResourceType
from kvorum.protocol.errors import ErrorCode

LOGGERS_MAX = 1_000
LoggerName = Annotated[str, Field(min_length=1, max_length=249, examples=["network"])]
LevelName = Annotated[str, Field(min_length=1, max_length=20, examples=["DEBUG"])]


class Logger(BaseModel):
    """A logger of a broker with its level."""

    name: str
    level: str = Field(examples=["INFO"])


class LoggerAlter(Strict):
    """Changes of log levels; other loggers are unchanged."""

    set: dict[LoggerName, LevelName] = Field(
        default_factory=dict,
        max_length=LOGGERS_MAX,
        examples=[{"network": "DEBUG"}],
        description="TRACE, DEBUG, INFO, WARN, ERROR or FATAL",
    )
    delete: list[LoggerName] = Field(
        default_factory=list, max_length=LOGGERS_MAX, description="Loggers to reset to the root's level"
    )


async def list_loggers(call: Call[NoBody]) -> list[BaseModel]:
    """List the loggers of a broker with their levels."""
    rows = await call.cluster.describe_configs(ResourceType.BROKER_LOGGER, str(broker_id(call)))
    return [Logger(name=row.name, level=row.value or "") for row in sorted(rows, key=lambda row: row.name)]


async def alter_loggers(call: Call[LoggerAlter]) -> None:
    """Set and reset log levels of one broker."""
    body = call.body
    changes = [ConfigChange(name=name, value=level) for name, level in body.set.items()]
    changes += [ConfigChange(name=name, operation=ConfigOperation.DELETE) for name in dict.fromkeys(body.delete)]
    if not changes:
        raise BadInput("set", "nothing to change: give set or delete")
    await call.cluster.alter_configs(
        ResourceType.BROKER_LOGGER, str(broker_id(call)), changes, validate_only=call.flag("validate_only")
    )


def loggers_state(rows: list[Logger]) -> object:
    """Return the state that a change could overwrite: all of it."""
    return [(row.name, row.level) for row in rows]


GET_LOGGERS = Operation.get(
    "/v1/brokers/{broker}/loggers", "List a broker's log levels", list_loggers, Logger, many=True, state=loggers_state
)
OPERATIONS = [
    GET_LOGGERS,
    GET_LOGGERS.patch(
        "Change a broker's log levels",
        alter_loggers,
        LoggerAlter,
        query=VALIDATE_ONLY,
        role=Role.OPERATE,
        fields={ErrorCode.INVALID_REQUEST: "set"},
    ),
]
