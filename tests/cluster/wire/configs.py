"""DescribeConfigs v4, written down in full."""

from kvorum.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.cluster.wire.world import Json, World

TOPIC, BROKER = 2, 4


def describe(world: World, kind: int, name: str) -> list[Json]:
    """Return [name, value, type, source, read only, sensitive, [[synonym, value, source], ...]] of every config."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    with world.connect() as connection:
        answer = connection.ask(DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4)
    assert answer is not None and answer.results[0].error_code == 0, answer
    return [
        [
            each.name,
            each.value,
            each.config_type,
            each.config_source,
            each.read_only,
            each.is_sensitive,
            [[synonym.name, synonym.value, synonym.source] for synonym in each.synonyms],
        ]
        for each in answer.results[0].configs
    ]
