"""Write docs/compatibility.md from docs/compatibility.json, which `make compatibility` makes by running the tests."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent / "docs"
WORDS = {"passed": "yes", "failed": "**no**", "skipped": "not run"}
HEAD = """\
# Client compatibility

- **yes**: tested with the unmodified client against a running cluster (tests/cluster). Empty: not tested.
- `make compatibility` runs the tests and generates this page from compatibility.json.

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
    for feature, told in features.items():
        lines.append(f"| {feature} | {' | '.join(told.get(client, '') for client in clients)} |")
    return HEAD + "\n".join(lines) + "\n" + TAIL


def main() -> None:
    """Write the page."""
    found = json.loads((DOCS / "compatibility.json").read_text())
    (DOCS / "compatibility.md").write_text(rendered(found))


if __name__ == "__main__":
    main()
