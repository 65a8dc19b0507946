"""The table: every case, and the answers that Apache Kafka 4.3.0 gave (tests/data/kafka-4.3-answers.json).

{"kafka": "4.3.0", "settings": {...}, "rows": {NAME: {
    "sent": what was sent, in words,
    "kafka": the answer, fields at their defaults left out,
    "messages": the texts of errors, for people (not compared),
    "kvorum": Kvorum's answer where it differs on purpose, and "why"}}}
"""

import json
from collections.abc import Mapping
from pathlib import Path

from tests.cluster.wire import cases_configs, cases_frames, cases_reads, cases_records, cases_topics, cases_voters
from tests.cluster.wire.case import Case
from tests.cluster.wire.world import Json

ANSWERS = Path(__file__).parent.parent.parent / "data" / "kafka-4.3-answers.json"
CASES: tuple[Case, ...] = (
    *cases_frames.CASES,
    *cases_records.CASES,
    *cases_reads.CASES,
    *cases_topics.CASES,
    *cases_configs.CASES,
    *cases_voters.CASES,
)


def read_rows() -> dict[str, Json]:
    """Return the recorded rows; none before the first recording."""
    return dict(json.loads(ANSWERS.read_text())["rows"]) if ANSWERS.exists() else {}


def write_rows(version: str, settings: Mapping[str, str], rows: Mapping[str, Json]) -> None:
    """Write the table, a line a row."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(row, ensure_ascii=False)}" for name, row in rows.items())
    head = f'"kafka": {json.dumps(version)},\n"settings": {json.dumps(dict(settings))},\n'
    ANSWERS.write_text(f'{{{head}"rows": {{\n{lines}\n}}}}\n', encoding="utf-8")
