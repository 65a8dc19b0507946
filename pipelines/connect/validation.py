"""Configurations held against their connector: Connect's ConfigInfos, and its refusal in words."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import count

from kvorum.pipelines.connect import catalogue
from kvorum.pipelines.connect.catalogue import ConnectorPlugin
from kvorum.pipelines.connect.definitions import COMMON, PREDICATES, TRANSFORMS, Key, shown
from kvorum.pipelines.connect.errors import ConnectError, bad_request
from kvorum.pipelines.connect.records import Json
from kvorum.pipelines.plugins import PluginError

VALUE_CHARACTERS_MAX = 100
"""Of a value in a message."""
PREFIXES = (("transforms.", TRANSFORMS), ("predicates.", PREDICATES))


def plugin_of(properties: Mapping[str, str]) -> ConnectorPlugin:
    """Return the connector that a configuration names. Raises ConnectError."""
    cls = properties.get("connector.class")
    if not cls:
        raise bad_request(f"Connector config with keys {', '.join(sorted(properties))} contains no connector type")
    found = catalogue.find(cls)
    if found is None:
        there = ", ".join(each.cls for each in catalogue.connectors())
        raise bad_request(
            f"Failed to find any class that implements Connector and which name matches {cls}, "
            f"available connectors are: {there}"
        )
    return found


def keys_for(plugin: ConnectorPlugin) -> list[Key]:
    """Return what may be configured. Raises ConnectError when the plugin cannot be loaded."""
    try:
        return catalogue.keys_of(plugin)
    except PluginError as error:
        raise ConnectError(500, str(error)) from error


def validated(properties: Mapping[str, str], bootstrap: str) -> Json:
    """Return Connect's ConfigInfos. Raises ConnectError. It may import plugins: not for the event loop."""
    plugin = plugin_of(properties)
    name = properties.get("name", "")
    required = catalogue.REQUIRED.get(catalogue.alias_of(plugin.cls), ())
    keys = keys_for(plugin)
    known = {key.name for key in keys}
    wrong: dict[str, list[str]] = {}
    for needed in ("name", *required):
        if needed not in properties:
            wrong[needed] = [missing(needed)]
    if properties.get("name") == "":
        wrong["name"] = ["Invalid value  for configuration name: String may not be empty"]
    if plugin.type == "sink" and plugin.cls != catalogue.PIPELINE:
        wrong |= _topics(properties)
    for about, message in catalogue.check(name or "unnamed", properties, bootstrap):
        if (about not in required or about in properties) and about not in ("topics", "topics.regex"):
            said = missing(about) if message == "is missing" else invalid_value(about, properties, message)
            wrong.setdefault(about, []).append(said)
    keys += [Key(name=given, group=_group(given)) for given in sorted({*properties, *wrong} - known)]
    values = [
        {
            "name": key.name,
            "value": shown(key.name, properties.get(key.name, key.default)),
            "recommended_values": list(key.recommended),
            "errors": wrong.get(key.name, []),
            "visible": True,
        }
        for key in keys
    ]
    pairs = zip(definitions_of(keys), values, strict=True)
    return {
        "name": properties["connector.class"],
        "error_count": sum(map(len, wrong.values())),
        "groups": list(dict.fromkeys(key.group for key in keys)),
        "configs": [{"definition": definition, "value": value} for definition, value in pairs],
    }


def definitions_of(keys: Sequence[Key]) -> list[Json]:
    """Return keys as Connect's ConfigKeyInfo, numbered per group."""
    orders: defaultdict[str, count[int]] = defaultdict(lambda: count(1))
    return [key.definition(next(orders[key.group])) for key in keys]


def _topics(properties: Mapping[str, str]) -> dict[str, list[str]]:
    """Return what is wrong with a sink's topics: Connect says it of both keys."""
    given = [key for key in ("topics", "topics.regex") if properties.get(key)]
    if len(given) == 1:
        return {}
    message = "Must configure one of topics or topics.regex"
    if given:
        message = "topics and topics.regex are mutually exclusive options, but both are set."
    return {key: [message] for key in ("topics", "topics.regex")}


def missing(key: str) -> str:
    """Return Connect's words for a key that must be there."""
    return f'Missing required configuration "{key}" which has no default value.'


def invalid_value(key: str, properties: Mapping[str, str], message: str) -> str:
    """Return a message with its key and the key's value, in Connect's words; secrets are hidden."""
    value = shown(key, properties.get(key))
    if value is None:
        return f"{key}: {message}"
    value = " ".join(catalogue.Secrets.in_configuration(properties).hidden(value).split())
    value = value if len(value) <= VALUE_CHARACTERS_MAX else value[:VALUE_CHARACTERS_MAX] + "..."
    return f"Invalid value {value} for configuration {key}: {message}"


def _group(key: str) -> str:
    for prefix, group in PREFIXES:
        if key.startswith(prefix):
            return f"{group}: {key.removeprefix(prefix).partition('.')[0]}"
    return COMMON


async def accepted(name: str, properties: Mapping[str, str], bootstrap: str) -> None:
    """Check a configuration before it is taken. Raises ConnectError with all that is wrong."""
    found = await asyncio.to_thread(validated, properties, bootstrap)
    wrong = [message for config in found["configs"] for message in config["value"]["errors"]]
    if wrong:
        raise invalid(wrong)


def invalid(wrong: Sequence[str]) -> ConnectError:
    """Return what answers a configuration with something wrong in it."""
    listed = "\n".join(wrong)
    return bad_request(
        f"Connector configuration is invalid and contains the following {len(wrong)} error(s):\n{listed}\n"
        "You can also find the above list of errors at the endpoint "
        "`/connector-plugins/{connectorType}/config/validate`"
    )
