"""Telling a node's configuration from a cluster file."""


def load_any(path: str) -> tuple[tuple[str, ...], str]:
    """Check a file; return its warnings and a word on what it is. Raises ConfigError."""
    from kvorum.runtime.cluster_file import load_cluster
    from kvorum.runtime.config_files import load_node, read_text

    if path.endswith((".yaml", ".yml")) and any(line.startswith("nodes:") for line in read_text(path).splitlines()):
        spec = load_cluster(path, "kvorum-data")
        return spec.warnings, f"a cluster of {len(spec.nodes)} node(s), in order"
    loaded = load_node(path)
    settings = loaded.settings
    return loaded.warnings, f"node {settings.int('node.id')} ({','.join(settings.list('process.roles'))}), in order"
