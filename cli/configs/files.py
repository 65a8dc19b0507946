"""Telling a node's configuration from a cluster file."""

from typing import TYPE_CHECKING

from kvorum.cli.local.folders import check_nodes

if TYPE_CHECKING:
    from kvorum.runtime.config import Settings

ELSEWHERE = "validate the rendered file of each node on its machine, where its key and trust stores are"


def is_cluster_file(path: str) -> bool:
    """Return whether a file has several nodes. Raises ConfigError."""
    from kvorum.runtime.config_files import read_text

    return path.endswith((".yaml", ".yml")) and any(line.startswith("nodes:") for line in read_text(path).splitlines())


def settings_of_nodes(path: str) -> "dict[str, Settings]":
    """Return the settings of each node of a valid file, by name. Raises ConfigError."""
    from kvorum.runtime.cluster_file import load_cluster
    from kvorum.runtime.config_files import load_node

    if is_cluster_file(path):
        return {node.name: node.with_secrets() for node in load_cluster(path, "kvorum-data").nodes}
    settings = load_node(path).settings
    return {f"node {settings.int('node.id')}": settings}


def load_any(path: str) -> tuple[tuple[str, ...], str]:
    """Check a file; return its warnings and its kind. Raises ConfigError."""
    from kvorum.runtime.cluster_file import load_cluster
    from kvorum.runtime.config import DEFAULT, ConfigError
    from kvorum.runtime.config_files import load_node
    from kvorum.security.config_checks import check_security

    if is_cluster_file(path):
        spec = load_cluster(path, "kvorum-data")
        count = f"{len(spec.nodes)} node{'' if len(spec.nodes) == 1 else 's'}"
        if len(spec.hosts) > 1:  # key and trust stores are on other machines
            return spec.warnings, f"OK, a cluster of {count} on {len(spec.hosts)} hosts; {ELSEWHERE}"
        return (*spec.warnings, *check_nodes(spec)), f"OK, a cluster of {count}"
    try:
        loaded = load_node(path)
        warnings = (*loaded.warnings, *check_security(loaded.settings))
    except ConfigError as error:
        if error.where != DEFAULT.where:
            raise
        # A missing key has no line: the error names the file.
        raise ConfigError(error.key, error.text, path, error.reason) from None
    settings = loaded.settings
    return warnings, f"OK, node {settings.int('node.id')} ({','.join(settings.list('process.roles'))})"
