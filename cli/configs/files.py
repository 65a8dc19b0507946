"""Telling a node's configuration from a cluster file."""


def load_any(path: str) -> tuple[tuple[str, ...], str]:
    """Check a file; return its warnings and its kind. Raises ConfigError."""
    from kvorum.runtime.cluster_file import load_cluster
    from kvorum.runtime.config import DEFAULT, ConfigError
    from kvorum.runtime.config_files import load_node, read_text
    from kvorum.security.config_checks import check_security

    if path.endswith((".yaml", ".yml")) and any(line.startswith("nodes:") for line in read_text(path).splitlines()):
        spec = load_cluster(path, "kvorum-data")
        warnings = [f"{node.name}: {each}" for node in spec.nodes for each in check_security(node.settings)]
        return (
            *spec.warnings,
            *warnings,
        ), f"OK, a cluster of {len(spec.nodes)} node{'' if len(spec.nodes) == 1 else 's'}"
    try:
        loaded = load_node(path)
    except ConfigError as error:
        if error.where != DEFAULT.where:
            raise
        # A missing key has no line: the error names the file.
        raise ConfigError(error.key, error.text, path, error.reason) from None
    settings = loaded.settings
    return (
        *loaded.warnings,
        *check_security(settings),
    ), f"OK, node {settings.int('node.id')} ({','.join(settings.list('process.roles'))})"
