"""Write docs/compatibility.md from docs/compatibility.json, which `make compatibility` makes by running the tests."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent / "docs"
WORDS = {"passed": "yes", "failed": "**no**", "skipped": "not run"}
HEAD = """\
# Clients

- **yes**: a test with the unmodified client passes against a running cluster (tests/compatibility.py lists the tests).
- An empty field means that there is no test, not that the client fails.

`make compatibility` runs the tests and writes this page and compatibility.json.

"""
TAIL = """
Tested by hand, see [measurements.md](measurements.md): Apache Kafka's tools, the Java clients, Kafka Streams, and
Confluent's two Go clients of the REST API, version 3 ([admin-api.md](admin-api.md#confluents-rest-api)).
[skipped.md](skipped.md) lists unsupported APIs.
"""


def rendered(found: Mapping[str, Any]) -> str:
    """Return the page."""
    clients = list(found["clients"])
    features: dict[str, dict[str, str]] = {}
    for row in found["results"]:
        features.setdefault(row["feature"], {})[row["client"]] = WORDS[row["outcome"]]
    names = " | ".join(f"{client} {found['clients'][client]}" for client in clients)
    lines = [f"| Feature | {names} |", "| --- |" + " --- |" * len(clients)]
    for feature, levels in features.items():
        lines.append(f"| {feature} | {' | '.join(levels.get(client, '') for client in clients)} |")
    return HEAD + "\n".join(lines) + "\n" + TAIL


def main() -> None:
    """Write the page."""
    found = json.loads((DOCS / "compatibility.json").read_text())
    (DOCS / "compatibility.md").write_text(rendered(found))


if __name__ == "__main__":
    main()
