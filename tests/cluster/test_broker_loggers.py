"""Log levels of a running broker, by an unmodified client: of that broker only, at once (KIP-412)."""

from pathlib import Path

from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from tests.cluster.clients import eventually
from tests.cluster.conftest import Start
from tests.cluster.nodes import name_of


def levels_of(admin: KafkaAdminClient, broker_id: int) -> dict[str, str]:
    """Return {logger: level} as the broker tells."""
    resource = ConfigResource(ConfigResourceType.BROKER_LOGGER, str(broker_id))
    found = admin.describe_configs([resource], config_filter="all")["broker_logger"][str(broker_id)]
    assert {each["config_source"] for each in found.values()} == {"DYNAMIC_BROKER_LOGGER_CONFIG"}
    return {name: each["value"] for name, each in found.items()}


def test_levels_are_set_on_the_broker_that_is_queried(start_cluster: Start) -> None:
    cluster = start_cluster("three-nodes.yaml")
    admin = KafkaAdminClient(bootstrap_servers=cluster.plan.bootstrap.split(","))

    def alter(broker_id: int, **levels: object) -> str:
        resource = ConfigResource(ConfigResourceType.BROKER_LOGGER, str(broker_id), levels)
        answer: str = admin.alter_configs([resource], raise_on_unknown=False)["broker_logger"][str(broker_id)]
        return answer

    try:
        before = levels_of(admin, 1)
        assert {"root", "broker", "network", "storage"} <= before.keys()
        assert set(before.values()) == {"INFO"}
        assert alter(1, network="DEBUG", storage="WARN") == "OK"
        assert levels_of(admin, 1) == {**before, "network": "DEBUG", "storage": "WARN"}
        assert set(levels_of(admin, 2).values()) == {"INFO"}
        assert alter(1, root="ERROR") == "OK"
        assert levels_of(admin, 1) == {**dict.fromkeys(before, "ERROR"), "network": "DEBUG", "storage": "WARN"}
        assert alter(1, network=("DELETE", None)) == "OK"
        assert levels_of(admin, 1)["network"] == "ERROR"
        assert "Logger nobody does not exist!" in alter(1, nobody="INFO")
        assert "not a supported log level" in alter(1, broker="LOUD")

        name = name_of(cluster, 1)
        log = Path(cluster.node(name).log("broker"))
        eventually(lambda: "log level changed of=network to=DEBUG" in log.read_text(), "the change in the log")
        cluster.kill(name)
        outcome = cluster.start(name)
        assert outcome == {name: "ready"}
        assert set(levels_of(admin, 1).values()) == {"INFO"}, "as it was configured, after a restart"
    finally:
        admin.close()
