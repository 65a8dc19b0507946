"""Write docs/compatibility.md from docs/compatibility.json, which `make compatibility` makes by running the tests."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent / "docs"
WORDS = {"passed": "yes", "failed": "**no**", "skipped": "not run"}
HEAD = """\
# Which clients do what

Each «yes» is a test with the unmodified client against a running cluster (tests/cluster; the table of
tests/compatibility.py says which). An empty field has no test, which says nothing of the client. Made from
compatibility.json by tools/generate_compatibility.py; `make compatibility` runs the tests anew and writes both.

"""
TAIL = """
What was tried by hand is in measurements.md: Apache Kafka's own programs and Java's clients, Kafka Streams, and
Confluent's two Go clients of its REST API, version 3. That API is in admin-api.md; what is not served at all is in
skipped.md.
"""


def rendered(found: Mapping[str, Any]) -> str:
    """Return the page."""
    clients = list(found["clients"])
    features: dict[str, dict[str, str]] = {}
    for row in found["results"]:
        features.setdefault(row["feature"], {})[row["client"]] = WORDS[row["outcome"]]
    names = " | ".join(f"{client} {found['clients'][client]}" for client in clients)
    lines = [f"| what | {names} |", "| --- |" + " --- |" * len(clients)]
    for feature, told in features.items():
        lines.append(f"| {feature} | {' | '.join(told.get(client, '') for client in clients)} |")
    return HEAD + "\n".join(lines) + "\n" + TAIL


def main() -> None:
    """Write the page."""
    found = json.loads((DOCS / "compatibility.json").read_text())
    (DOCS / "compatibility.md").write_text(rendered(found))


if __name__ == "__main__":
    main()
