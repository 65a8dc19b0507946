"""Where a node's configuration is written: a properties or YAML file, the environment, `--override KEY=VALUE`.

The last of these wins, as in Kafka's Docker images, where the environment is written over the file. A YAML file has the
same dotted keys; nested maps are the same as dots, lists the same as commas. In a variable's name `_` stands for `.`,
`__` for `_` and `___` for `-`; the prefix is `KAFKA_` or `KVORUM_`, of which the latter wins. An unknown key is a
warning with what it may have been meant to be, a wrong value an error that names file and line.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvorum.runtime import config_defs
from kvorum.runtime.config import ConfigError, ConfigSource, Entry, Settings, Source
from kvorum.runtime.config_checks import check_node
from kvorum.runtime.config_types import ConfigType
from kvorum.runtime.properties import PropertiesError, parse_properties

if TYPE_CHECKING:
    import yaml

YAML_ENDINGS = (".yaml", ".yml")
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
    }
)

Written = tuple[str, Entry]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A node's settings, and what the operator should hear."""

    settings: Settings
    warnings: tuple[str, ...]


def load_node(
    path: str | None, *, overrides: Sequence[str] = (), environment: Mapping[str, str] | None = None, check: bool = True
) -> Loaded:
    """Read a node's configuration: the file, then the environment, then the overrides (KEY=VALUE).

    `check` also holds keys against each other, as a node does before it starts. Raises ConfigError.
    """
    warnings: list[str] = []
    entries: dict[str, Entry] = {}
    if path is not None:
        entries |= known(read_file(path), warnings, doubles=True)
    entries |= known(environment_entries(os.environ if environment is None else environment), warnings)
    entries |= known(override_entries(overrides), warnings)
    settings = Settings(entries)
    if check:
        warnings += check_node(settings)
    return Loaded(settings=settings, warnings=tuple(warnings))


def known(written: Iterable[Written], warnings: list[str], doubles: bool = False) -> dict[str, Entry]:
    """Keep the known keys; say of each other one, and with `doubles` of each given twice, what is wrong with it."""
    entries: dict[str, Entry] = {}
    for key, entry in written:
        if not config_defs.is_known(key):
            warnings.append(f"{entry.source.where}: {config_defs.complaint(key)}")
            continue
        if doubles and key in entries:
            warnings.append(f"{entry.source.where}: {key} is there twice; this one wins")
        entries[key] = entry
    return entries


def read_file(path: str) -> list[Written]:
    """Read a properties or YAML file, by its ending. Raises ConfigError with file and line."""
    return yaml_entries(path, read_text(path)) if path.endswith(YAML_ENDINGS) else properties_entries(path)


def read_text(path: str) -> str:
    """Read a config file's text. Raises ConfigError when it is not there, is too large or not UTF-8."""
    try:
        with open(path, "rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise ConfigError("", None, path, f"larger than {FILE_BYTES_MAX} bytes: that is no configuration")
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
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError("", None, path + line, f"is not YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise ConfigError("", None, path, f"is not YAML: {error}") from None


def flatten(path: str, node: "yaml.Node", prefix: str = "") -> Iterator[Written]:
    """Give every config below a YAML map with its dotted key; a null is left out. Raises ConfigError."""
    import yaml

    where = f"{path}:{node.start_mark.line + 1}"
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise ConfigError(prefix, None, where, "a key must be a text")
            yield from flatten(path, value, f"{prefix}.{key.value}" if prefix else key.value)
    elif not prefix:
        raise ConfigError("", None, where, "must be a map of configs, as in `node.id: 1`")
    elif isinstance(node, yaml.SequenceNode):
        if not all(isinstance(item, yaml.ScalarNode) for item in node.value):
            raise ConfigError(prefix, None, where, "a list may hold only plain values")
        yield prefix, Entry(",".join(item.value for item in node.value), static(where))
    elif not node.tag.endswith(":null"):
        yield prefix, Entry(scalar(prefix, node), static(where))


def scalar(key: str, node: "yaml.Node") -> str:
    """Return a plain value's text; for a BOOLEAN config YAML's yes/no and on/off count too."""
    text = str(node.value)
    definition = config_defs.broker_def(key)
    if node.tag.endswith(":bool") and definition is not None and definition.type is ConfigType.BOOLEAN:
        return "true" if text.lower() in YAML_TRUE else "false"
    return text


def environment_entries(environment: Mapping[str, str]) -> list[Written]:
    """Return the configs among the variables; what only happens to have the prefix and resembles none is left out."""
    found: list[Written] = []
    for prefix in PREFIXES:
        for name in sorted(environment):
            if not name.startswith(prefix) or name in NOT_CONFIGS:
                continue
            key = variable_key(name.removeprefix(prefix))
            ours = f"kvorum.{key}"
            if prefix == "KVORUM_" and not config_defs.is_known(key) and config_defs.is_known(ours):
                key = ours
            if config_defs.is_known(key) or config_defs.suggestions(key):
                found.append((key, Entry(environment[name], static(f"environment {name}"))))
    return found


def variable_key(name: str) -> str:
    """Return the key a variable (without its prefix) stands for: FOO_BAR__BAZ___QUX is foo.bar_baz-qux."""
    return name.lower().replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")


def override_entries(overrides: Sequence[str]) -> list[Written]:
    """Read `--override KEY=VALUE`. Raises ConfigError where there is no =."""
    found: list[Written] = []
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ConfigError("", None, "--override", f"{text!r} is not KEY=VALUE")
        found.append((key.strip(), Entry(value.strip(), static("--override"))))
    return found


def static(where: str) -> Source:
    """Return the source of something the operator wrote there."""
    return Source(ConfigSource.STATIC_BROKER_CONFIG, where)
