"""Visibility of secrets in the metadata over HTTP: configs as in DescribeConfigs, credentials without salt and keys.

The metadata have every config with its stored value. A broker's unknown config may be a plugin's password: brokers
return it as a secret (quorum/configs/entries), so its value is hidden here too, everywhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from kvorum.client.records.visible_records import VisibleRecords, visible
from kvorum.client.wire.cluster_client import ResourceType
from kvorum.protocol.messages.fetch import AbortedTransaction
from kvorum.protocol.records import Record
from kvorum.quorum.records import without_credential_keys
from kvorum.runtime import config_defs
from kvorum.runtime.config_types import HIDDEN

CONFIG = "Config"
"""The type of metadata records with a value that may be a secret."""


def is_secret(resource_type: int, name: str) -> bool:
    """Return whether a config's value may be a secret: it is declared so, or the config is unknown."""
    match resource_type:
        case ResourceType.BROKER:
            definition = config_defs.broker_def(name)
        case ResourceType.TOPIC:
            definition = config_defs.TOPIC.get(name)
        case ResourceType.GROUP:
            definition = config_defs.GROUP.get(name)
        case ResourceType.CLIENT_METRICS:
            return False  # three texts, which the controller checks by name
        case _:
            return True
    return definition is None or definition.sensitive


def without_secret(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a metadata record's fields, including `type`, its secret hidden."""
    if fields.get("type") != CONFIG or fields.get("value") is None:
        return without_credential_keys(fields)
    if not is_secret(fields["resource_type"], fields["name"]):
        return fields
    return {**fields, "value": HIDDEN}


def visible_metadata(piece: bytes, from_offset: int, aborted: Sequence[AbortedTransaction] | None) -> VisibleRecords:
    """Return what `visible` does of a piece of the metadata log, without the values of secrets. Raises as it does."""
    seen = visible(piece, from_offset, aborted)
    return seen._replace(records=[hide_secrets(record) for record in seen.records])


def hide_secrets(record: Record) -> Record:
    """Return a record of the metadata log without secrets; a record that is not a JSON object has none."""
    try:
        fields = msgspec.json.decode(record.value or b"", type=dict[str, Any])
    except msgspec.DecodeError:
        return record
    public = without_secret(fields)
    return record if public is fields else replace(record, value=msgspec.json.encode(public))
