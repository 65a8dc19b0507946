"""Parameters of the paths of Confluent's REST API, and operations that have those of their path."""

from collections.abc import Sequence
from typing import Any, Final

from pydantic import BaseModel

from kvorum.admin.http.operations import Operation
from kvorum.admin.http.parameters import Parameter, number, text
from kvorum.admin.v3.dialect import V3

CLUSTER_ID: Final = text("cluster_id", "id of the cluster")
TOPIC_NAME: Final = text("topic_name", "name of the topic")
PARTITION_ID: Final = number("partition_id", "number of the partition")
BROKER_ID: Final = number("broker_id", "id of the broker")
GROUP_ID: Final = text("consumer_group_id", "id of the group")
CONSUMER_ID: Final = text("consumer_id", "id of the member")
CONFIG_NAME: Final = text("name", "name of the config")
ALL: Final = (CLUSTER_ID, TOPIC_NAME, PARTITION_ID, BROKER_ID, GROUP_ID, CONSUMER_ID, CONFIG_NAME)


def parameters_in(path: str) -> list[Parameter[Any]]:
    """Return the parameters of a path, in their order."""
    return sorted((each for each in ALL if f"{{{each.name}}}" in path), key=lambda each: path.index(f"{{{each.name}}}"))


def operation(*, path: str, parameters: Sequence[Parameter[Any]] = (), **fields: Any) -> Operation:
    """Return an operation with the parameters of its path."""
    return Operation(path=path, parameters=(*parameters_in(path), *parameters), dialect=V3, **fields)


def get_operation(
    path: str, summary: str, handle: Any, answer: type[BaseModel], *, parameters: Sequence[Parameter[Any]] = ()
) -> Operation:
    """Return an operation that reads, with the parameters of its path."""
    return operation(method="GET", path=path, summary=summary, handle=handle, answer=answer, parameters=parameters)
