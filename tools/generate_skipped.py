"""Write the tables of docs/skipped.md from the code: APIs Kvorum does not serve, and what handlers leave out.

Run: python tools/generate_skipped.py [--check]. REASONS has the feature that each unserved API belongs to. The
omissions of a served API come from `Not here:` in its handler's docstring, up to `Order:` or the end.
"""

import argparse
import importlib
import pkgutil
import re
import sys
from pathlib import Path

import kvorum.broker.api
import kvorum.quorum.api
from kvorum.protocol.api import BROKER_APIS, CONTROLLER_APIS, ApiKey

TARGET = Path(__file__).parent.parent / "docs" / "skipped.md"
BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"
SECURITY = "security"
REASONS: dict[ApiKey, str] = {
    **dict.fromkeys(
        [
            ApiKey.DESCRIBE_ACLS,
            ApiKey.CREATE_ACLS,
            ApiKey.DELETE_ACLS,
        ],
        SECURITY,
    ),
    **dict.fromkeys(
        [ApiKey.DESCRIBE_DELEGATION_TOKEN, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS],
        "brokers; Kafka's controllers offer it and do not answer it",
    ),
    **dict.fromkeys(
        [
            ApiKey.SHARE_GROUP_HEARTBEAT,
            ApiKey.SHARE_GROUP_DESCRIBE,
            ApiKey.SHARE_FETCH,
            ApiKey.SHARE_ACKNOWLEDGE,
            ApiKey.INITIALIZE_SHARE_GROUP_STATE,
            ApiKey.READ_SHARE_GROUP_STATE,
            ApiKey.WRITE_SHARE_GROUP_STATE,
            ApiKey.DELETE_SHARE_GROUP_STATE,
            ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
            ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
            ApiKey.ALTER_SHARE_GROUP_OFFSETS,
            ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        ],
        "share groups (KIP-932)",
    ),
    ApiKey.STREAMS_GROUP_HEARTBEAT: "streams groups (KIP-1071)",
    ApiKey.STREAMS_GROUP_DESCRIBE: "streams groups (KIP-1071)",
    **dict.fromkeys(
        [ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH],
        "Kafka's Raft protocol; Kvorum's controllers use frames of their own",
    ),
    ApiKey.CONTROLLER_REGISTRATION: "registration of controllers; the configuration has their addresses",
}


def title(key: ApiKey) -> str:
    return "".join(part.capitalize() for part in key.name.split("_"))


def unserved(table: dict[ApiKey, tuple[int, int]], served: set[int]) -> list[str]:
    """Return a row for each API that is not served. Raises KeyError if REASONS lacks it."""
    rows = ["| API | Versions in Kafka 4.3 | Belongs to |", "| --- | --- | --- |"]
    for key, (first, last) in sorted(table.items()):
        if key not in served:
            rows.append(f"| {title(key)} ({int(key)}) | {first}-{last} | {REASONS[key]} |")
    return rows


def left_out(package: object, room: str) -> list[str]:
    """Return a row for each handler whose docstring has a `Not here:` line."""
    rows = ["| API | Missing |", "| --- | --- |"]
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda module: module.name):
        text = importlib.import_module(f"kvorum.{room}.api.{module.name}").__doc__ or ""
        assert len(re.findall(r"\bNot here\b", text)) == len(re.findall(r"^Not here:", text, re.M)) < 2, module.name
        found = re.search(r"^Not here:(.*?)(?=^Order:|\Z)", text, re.M | re.S)
        if found:
            title_line = re.match(r"\w+ \(\d+\)", text)
            assert title_line is not None, module.name
            rows.append(f"| {title_line[0]} | {' '.join(found[1].split()).rstrip('.')} |")
    return rows


def body() -> str:
    from kvorum.broker.api.registry import advertised
    from kvorum.quorum.api.registry import served_versions

    parts = ["## APIs that brokers do not serve", *unserved(dict(BROKER_APIS), set(advertised())), ""]
    parts += ["## APIs that controllers do not serve", *unserved(dict(CONTROLLER_APIS), set(served_versions())), ""]
    parts += ["## Omissions in served APIs: brokers", *left_out(kvorum.broker.api, "broker"), ""]
    parts += ["## Omissions in served APIs: controllers", *left_out(kvorum.quorum.api, "quorum")]
    return "\n".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="compare instead of writing; exit 1 when something differs"
    )
    options = parser.parse_args()
    text = TARGET.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    wanted = f"{before}{BEGIN}\n{body()}\n{END}{after}"
    if options.check:
        print(
            "docs/skipped.md is up to date"
            if wanted == text
            else "docs/skipped.md is stale: run tools/generate_skipped.py"
        )
        return int(wanted != text)
    TARGET.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
