"""Telling a node's configuration from a cluster file."""

from kvorum.cli.local.folders import check_nodes


def load_any(path: str) -> tuple[tuple[str, ...], str]:
    """Check a file; return its warnings and its kind. Raises ConfigError."""
    from kvorum.runtime.cluster_file import load_cluster
    from kvorum.runtime.config import DEFAULT, ConfigError
    from kvorum.runtime.config_files import load_node, read_text
    from kvorum.security.config_checks import check_security

    if path.endswith((".yaml", ".yml")) and any(line.startswith("nodes:") for line in read_text(path).splitlines()):
        spec = load_cluster(path, "kvorum-data")
        count = f"{len(spec.nodes)} node{'' if len(spec.nodes) == 1 else 's'}"
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
