"""Send every case of tests/cluster/wire to a real Apache Kafka 4.3.0 and write its answers into tests/data.

    python tools/record_kafka_answers.py [--jars FOLDER]        # needs java and, for the first time, Maven

Writes tests/data/kafka-4.3-answers.json (what Kvorum does otherwise, and why, is kept) and
tests/data/kafka-4.3-describe-configs.json (DescribeConfigs v4 of a fresh topic and broker, the features).
"""

import argparse
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from bench.apache_kafka import VERSION, KafkaCluster, running  # noqa: E402
from kvorum.protocol.messages.api_versions import ApiVersionsRequest  # noqa: E402
from tests.cluster.wire.configs import BROKER, TOPIC, describe  # noqa: E402
from tests.cluster.wire.table import CASES, read_rows, write_rows  # noqa: E402
from tests.cluster.wire.world import SETTINGS, Json, NormalClient, World  # noqa: E402

CONFIGS = ROOT / "tests" / "data" / "kafka-4.3-describe-configs.json"
KEPT = ("kvorum", "why")
MOMENT = re.compile(r"-?\d{13,}")
"""A point in time in the text of an error, different in every run."""


def address(cluster: KafkaCluster) -> tuple[str, int]:
    """Return where the first node listens."""
    return "127.0.0.1", cluster.ports[1]


def record_rows(cluster: KafkaCluster) -> dict[str, Json]:
    """Send every case; a normal client must be served after each."""
    host, port = address(cluster)
    before = read_rows()
    rows: dict[str, Json] = {}
    client = NormalClient(World(host, port, "normal"))
    for case in CASES:
        world = World(host, port, case.name)
        assert case.name not in rows, f"two cases are named {case.name}"
        row = {"sent": case.sent, "kafka": case.run(world)}
        row |= {"messages": [MOMENT.sub("MS", text) for text in world.messages]} if world.messages else {}
        rows[case.name] = row | {key: value for key, value in before.get(case.name, {}).items() if key in KEPT}
        client.assert_served()
    client.close()
    return rows


def record_configs(cluster: KafkaCluster) -> Json:
    """Return Kafka's configs of a fresh topic, of one with configs, and of a broker; and its features."""
    host, port = address(cluster)
    world = World(host, port, "described")
    plain, own = world.topic(), world.topic(retention_ms="1000", cleanup_policy="compact")
    with world.connect() as connection:
        versions = connection.ask(ApiVersionsRequest(client_software_name="raw", client_software_version="1"), 4)
    assert versions is not None and versions.error_code == 0, versions
    return {
        "topic": describe(world, TOPIC, plain.name),
        "topic with retention.ms=1000, cleanup.policy=compact": describe(world, TOPIC, own.name),
        "broker": describe(world, BROKER, "1"),
        "cluster": describe(world, BROKER, ""),
        "supported features": {each.name: [each.min_version, each.max_version] for each in versions.supported_features},
        "finalized features": {
            each.name: [each.min_version_level, each.max_version_level] for each in versions.finalized_features
        },
    }


def write_configs(cluster: KafkaCluster, found: Json) -> None:
    """Write the fixture, one config per line, without values of this machine."""
    text = json.dumps(found).replace(str(cluster.folder), "/FOLDER")
    for port in (*cluster.ports.values(), *cluster.controller_ports.values()):
        text = text.replace(f":{port}", ":PORT")
    parts = []
    for key, value in json.loads(text).items():
        rows = value if isinstance(value, list) else None
        body = json.dumps(value) if rows is None else "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]"
        parts.append(f"{json.dumps(key)}: {body}")
    CONFIGS.write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")


def main() -> None:
    """Start Kafka, record, stop."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jars", help="folder of Kafka's jars")
    options = parser.parse_args()
    with running(1, SETTINGS, options.jars) as cluster:
        rows = record_rows(cluster)
        write_configs(cluster, record_configs(cluster))
    write_rows(VERSION, SETTINGS, rows)
    print(f"{len(rows)} rows")


if __name__ == "__main__":
    main()
