"""Sources of a node's configuration: a properties or YAML file, the environment, `--override KEY=VALUE`.

Later sources override earlier ones, as in Kafka's Docker images. A YAML file has the same dotted keys; nested maps are
equivalent to dots, lists to commas. References in values are replaced (config_providers). In a variable's name `_` is
`.`, `__` is `_` and `___` is `-`; the prefix is `KAFKA_` or `KVORUM_`, of which the latter has precedence. An unknown
key is a warning with the most similar key, an invalid value is an error with file and line.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvorum.runtime import config_defs
from kvorum.runtime.config import ConfigError, ConfigSource, Entry, Settings, Source
from kvorum.runtime.config_checks import check_node
from kvorum.runtime.config_providers import NAMES as PROVIDERS
from kvorum.runtime.config_providers import PREFIX as PROVIDER_PREFIX
from kvorum.runtime.config_providers import REFERENCE, ProviderError, configured_providers, replace_references
from kvorum.runtime.config_types import ConfigType
from kvorum.runtime.properties import PropertiesError, parse_properties

if TYPE_CHECKING:
    import yaml

YAML_ENDINGS = (".yaml", ".yml")
KEY_PARTS_MAX = 32
YAML_TRUE = ("yes", "on", "true")
PREFIXES = ("KAFKA_", "KVORUM_")  # the later wins
FILE_BYTES_MAX = 1 << 20  # a node's config is a page or two; a larger file is not one

# Variables of Kafka's and our own start scripts that are no configs.
NOT_CONFIGS = frozenset(
    {
        "KAFKA_HOME",
        "KAFKA_VERSION",
        "KAFKA_OPTS",
        "KAFKA_HEAP_OPTS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_JMX_OPTS",
        "KAFKA_JMX_PORT",
        "KAFKA_JMX_HOSTNAME",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_CLUSTER_ID",
        "KVORUM_CLUSTER_ID",
        "KVORUM_LOG_FORMAT",
        "KVORUM_LOG_LEVEL",
        "KVORUM_FAILPOINTS",
        "KVORUM_TRACEBACK",
    }
)

BITNAMI_PREFIX = "KAFKA_CFG_"
SERVICE_LINKS = ("tcp://", "udp://", "sctp://")
"""Values of variables that Kubernetes and Docker make of a service's name, as KAFKA_PORT of a service `kafka`."""
OF_IMAGES: Mapping[str, str] = {
    "KAFKA_CREATE_TOPICS": "create topics with `kvorum topics create`",
    "KAFKA_ENABLE_KRAFT": "no other mode exists; remove the key",
    "KAFKA_KRAFT_CLUSTER_ID": "use `kvorum format --cluster-id`",
    "KAFKA_KRAFT_BOOTSTRAP_SCRAM_USERS": "use `kvorum format --add-scram`",
    "KAFKA_CLIENT_USERS": "set sasl.jaas.config of the listener, or use `kvorum users create`",
    "KAFKA_CLIENT_PASSWORDS": "set sasl.jaas.config of the listener, or use `kvorum users create`",
    "KAFKA_INTER_BROKER_USER": "set sasl.jaas.config of the listener",
    "KAFKA_INTER_BROKER_PASSWORD": "set sasl.jaas.config of the listener",
    "KAFKA_CONTROLLER_USER": "set sasl.jaas.config of the listener",
    "KAFKA_CONTROLLER_PASSWORD": "set sasl.jaas.config of the listener",
    "KAFKA_CERTIFICATE_PASSWORD": "set ssl.keystore.password and ssl.key.password",
    "KAFKA_TLS_TYPE": "set ssl.keystore.type and ssl.truststore.type",
    "KAFKA_TLS_CLIENT_AUTH": "set ssl.client.auth",
}
"""Variables of the images of Bitnami and wurstmeister, and what takes their place."""

USUAL_PROVIDERS = frozenset(("env", "file", "dir", "directory"))
"""Names of config providers: a reference to one that is not configured is probably a mistake."""

Written = tuple[str, Entry]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A node's settings, and warnings for the operator."""

    settings: Settings
    warnings: tuple[str, ...]


def load_node(
    path: str | None,
    *,
    overrides: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    check: bool = True,
    has_secrets: bool = True,
) -> Loaded:
    """Read a node's configuration: the file, then the environment, then the overrides (KEY=VALUE).

    `check` also checks combinations of keys, as a node does before it starts. `has_secrets`: references are replaced;
    else they stay, for a reader of other keys that cannot read the secrets. Raises ConfigError.
    """
    variables = os.environ if environment is None else environment
    warnings = image_variables(variables)
    entries: dict[str, Entry] = {}
    if path is not None:
        entries |= known(read_file(path), warnings, doubles=True)
    entries |= known(environment_entries(variables), warnings)
    entries |= known(override_entries(overrides), warnings)
    warnings += [
        f"{entry.source.where}: {key} contains {match[0]}, but {match[1]} is not one of config.providers"
        for key, entry in entries.items()
        if (match := REFERENCE.search(entry.text)) and match[1] in USUAL_PROVIDERS - {*providers_named(entries)}
    ]
    settings = Settings(without_references(entries, os.environ) if has_secrets else entries)
    if check:
        warnings += check_node(settings)
    return Loaded(settings=settings, warnings=tuple(warnings))


def without_references(entries: Mapping[str, Entry], environment: Mapping[str, str]) -> dict[str, Entry]:
    """Return entries whose references are replaced by what they refer to. Raises ConfigError, without the values."""
    key = ""
    try:
        providers = configured_providers({key: entry.text for key, entry in entries.items()}, environment)
        found: dict[str, Entry] = {}
        for key, entry in entries.items():
            text = entry.text if key.startswith(PROVIDER_PREFIX) else replace_references(entry.text, providers)
            found[key] = entry if text == entry.text else Entry(text, entry.source)
    except ProviderError as error:
        key = error.key or key
        where = entries[key].source.where if key in entries else ""
        raise ConfigError(key, None, where, error.reason) from None
    return found


def providers_named(entries: Mapping[str, Entry]) -> list[str]:
    """Return `config.providers`."""
    entry = entries.get(PROVIDERS)
    return [] if entry is None else [name.strip() for name in entry.text.split(",")]


def known(written: Iterable[Written], warnings: list[str], doubles: bool = False) -> dict[str, Entry]:
    """Keep the known keys; report all others, and with `doubles` duplicates."""
    entries: dict[str, Entry] = {}
    for key, entry in written:
        if not config_defs.is_known(key):
            warnings.append(f"{entry.source.where}: {config_defs.complaint(key)}")
            continue
        if doubles and key in entries:
            warnings.append(f"{entry.source.where}: {key} is a duplicate; this one is used")
        entries[key] = entry
    return entries


def read_file(path: str) -> list[Written]:
    """Read a properties or YAML file, by its ending. Raises ConfigError with file and line."""
    return yaml_entries(path, read_text(path)) if path.endswith(YAML_ENDINGS) else properties_entries(path)


def read_text(path: str) -> str:
    """Read a config file's text. Raises ConfigError if it is missing, too large or not UTF-8."""
    try:
        with open(path, "rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise ConfigError(
                "", None, path, f"larger than {FILE_BYTES_MAX} bytes, which is the limit for configuration files"
            )
        return data.decode()
    except OSError as error:
        raise ConfigError("", None, path, f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError("", None, path, f"is not UTF-8 (byte {error.start})") from None


def properties_entries(path: str) -> list[Written]:
    """Read a Java properties file. Raises ConfigError."""
    try:
        found = parse_properties(read_text(path))
    except PropertiesError as error:
        raise ConfigError("", None, f"{path}:{error.line}", error.reason) from None
    return [(item.key, Entry(item.text, static(f"{path}:{item.line}"))) for item in found]


def yaml_entries(path: str, text: str) -> list[Written]:
    """Read a YAML map of configs. Raises ConfigError with the line."""
    root = compose(path, text)
    return [] if root is None else [*flatten(path, root)]


def compose(path: str, text: str) -> "yaml.Node | None":
    """Parse YAML into nodes, which know their lines; None if there is nothing in it. Raises ConfigError."""
    import yaml

    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f":{mark.line + 1}" if mark else ""
        is_tab = mark is not None and mark.buffer is not None and mark.buffer[mark.pointer : mark.pointer + 1] == "\t"
        advice = " (indent with spaces; YAML does not permit tabs)" if is_tab else ""
        raise ConfigError("", None, path + line, f"is not YAML: {error.problem or error.context}{advice}") from None
    except yaml.YAMLError as error:
        raise ConfigError("", None, path, f"is not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ConfigError("", None, path, "is nested too deeply for a configuration") from None


def map_items(path: str, node: "yaml.MappingNode") -> Iterator[tuple[str, str, "yaml.Node"]]:
    """Yield the key, place and value of each item of a YAML map. Raises ConfigError for a key that cannot be one."""
    import yaml

    seen: set[str] = set()
    for key, value in node.value:
        where = f"{path}:{key.start_mark.line + 1}"
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigError("", None, where, "a key must be a string")
        if key.tag.endswith(":merge"):
            raise ConfigError("<<", None, where, "merge keys are not supported; put common keys in defaults")
        if key.value in seen:
            raise ConfigError(key.value, None, where, "is a duplicate key in this map")
        seen.add(key.value)
        yield key.value, where, value


def flatten(path: str, node: "yaml.Node", prefix: str = "") -> Iterator[Written]:
    """Yield every config below a YAML map with its dotted key; a null is left out. Raises ConfigError."""
    import yaml

    where = f"{path}:{node.start_mark.line + 1}"
    if isinstance(node, yaml.MappingNode):
        for key, place, value in map_items(path, node):
            whole = f"{prefix}.{key}" if prefix else key
            if whole.count(".") >= KEY_PARTS_MAX:  # an alias within itself has no end
                raise ConfigError(prefix, None, place, "is nested too deeply for a configuration")
            if isinstance(value, yaml.MappingNode) and not config_defs.is_beginning(whole):
                raise ConfigError(whole, None, place, map_advice(whole))
            nested = flatten(path, value, whole)
            yield from nested if not prefix else known_below(prefix, nested)
    elif not prefix:
        raise ConfigError("", None, where, "must be a map of configs, such as `node.id: 1`")
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            if not isinstance(item, yaml.ScalarNode):
                place = f"{path}:{item.start_mark.line + 1}"
                raise ConfigError(
                    prefix, None, place, "a list may contain scalar values only, such as `- PLAINTEXT://:9092`"
                )
        yield prefix, Entry(",".join(item.value for item in node.value), static(where))
    elif not node.tag.endswith(":null"):
        yield prefix, Entry(scalar(prefix, node), static(where))


def known_below(prefix: str, written: Iterable[Written]) -> Iterator[Written]:
    """Yield the configs of a nested map. Raises ConfigError for an invalid key: such a map is a mistake."""
    for key, entry in written:
        if not config_defs.is_known(key) and config_defs.successor(key) is None:
            advice = f"configs below `{prefix}:` need their complete names, as in `num.partitions: 3`"
            raise ConfigError("", None, entry.source.where, f"{config_defs.complaint(key)}; {advice}")
        yield key, entry


def map_advice(key: str) -> str:
    """Return the error for a map at a key that has no sub-keys."""
    if config_defs.is_known(key):
        return "has a map instead of a value"
    return "no config has this prefix; write complete names, as in `num.partitions: 3`"


def scalar(key: str, node: "yaml.Node") -> str:
    """Return a plain value's text; for a BOOLEAN config YAML's yes/no and on/off count too."""
    text = str(node.value)
    definition = config_defs.broker_def(key)
    if node.tag.endswith(":bool") and definition is not None and definition.type is ConfigType.BOOLEAN:
        return "true" if text.lower() in YAML_TRUE else "false"
    return text


def environment_entries(environment: Mapping[str, str]) -> list[Written]:
    """Return the configs among the variables, removed ones included; unrelated variables are ignored."""
    found: list[Written] = []
    for prefix in PREFIXES:
        for name in sorted(environment):
            if not name.startswith(prefix) or name in NOT_CONFIGS or name in OF_IMAGES:
                continue
            if name.startswith(BITNAMI_PREFIX) or environment[name].startswith(SERVICE_LINKS):
                continue
            key = variable_key(name.removeprefix(prefix))
            ours = f"kvorum.{key}"
            if prefix == "KVORUM_" and not config_defs.is_known(key) and config_defs.is_known(ours):
                key = ours
            if config_defs.is_known(key) or config_defs.successor(key) or config_defs.suggestions(key):
                found.append((key, Entry(environment[name], static(f"environment {name}"))))
    return found


def image_variables(environment: Mapping[str, str]) -> list[str]:
    """Return a warning for each variable that only other images of Kafka read, with what takes its place."""
    found = []
    for name in sorted(environment):
        if name in OF_IMAGES:
            found.append(f"environment {name}: belongs to another Kafka image and is ignored; {OF_IMAGES[name]}")
        elif name.startswith(BITNAMI_PREFIX):
            plain = f"KAFKA_{name.removeprefix(BITNAMI_PREFIX)}"
            found.append(f"environment {name}: belongs to another Kafka image and is ignored; set {plain}")
    return found


def variable_key(name: str) -> str:
    """Return the key of a variable (without its prefix): FOO_BAR__BAZ___QUX is foo.bar_baz-qux."""
    return name.lower().replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")


def override_entries(overrides: Sequence[str], where: str = "--override") -> list[Written]:
    """Read `--override KEY=VALUE`, or another option of this form. Raises ConfigError without =."""
    found: list[Written] = []
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ConfigError("", None, where, f"{text!r} is not KEY=VALUE")
        found.append((key.strip(), Entry(value.strip(), static(where))))
    return found


def static(where: str) -> Source:
    """Return the source of something the operator wrote there."""
    return Source(ConfigSource.STATIC_BROKER_CONFIG, where)
