"""The admin API of a running node, tried by a program that knows nothing of it but /openapi.json (Schemathesis).

Whatever it sends, nothing fails on our side, and each answer has a status, a media type and a shape of the document's.
What the paths name is there: a topic with records, a group with places, the broker; changes get ones of their own.
"""

import schemathesis
from confluent_kafka import Consumer, Producer, TopicPartition
from hypothesis import HealthCheck, given, settings

from tests.cluster.clients import create_topic, eventually
from tests.cluster.conftest import Start
from tests.cluster.test_admin_api import http

EXAMPLES = 4
ENDLESS = r"(/stream|/events)$|^/v1/live/"
ENDS = r"^/v1/brokers/\{broker\}/controlled-shutdown$"
"""It would stop the very broker that all else is asked of."""
PARTITION = 0
SEEN_MIN = 50
"""So many operations that look at something are to be answered with what there is, not with 404 alone."""


def test_every_answer_is_one_that_the_document_has(start_cluster: Start) -> None:
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    held = [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]
    cluster = start_cluster("single.yaml")
    broker = int(cluster.plan.nodes[0].properties["node.id"])
    for name in ("kept", "changed"):
        fill(cluster.plan.bootstrap, name, f"{name}-group")
    eventually(lambda: http(cluster, "GET", "/v1/groups/kept-group")[0] == 200, "the group")
    schema = schemathesis.openapi.from_url(f"{cluster.plan.admin_urls()[0]}/openapi.json")
    tried: list[str] = []
    seen: set[str] = set()
    for found in schema.exclude(path_regex=ENDLESS).exclude(path_regex=ENDS).get_all_operations():

        @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
        @given(case=found.ok().as_strategy())
        def check(case) -> None:
            # What all of Confluent's paths begin with nobody can guess; nor, mostly, what there is.
            name = "kept" if case.method == "GET" else "changed"
            there = {
                "cluster_id": cluster.plan.cluster_id,
                **dict.fromkeys(("topic", "topic_name"), name),
                **dict.fromkeys(("group", "consumer_group_id"), f"{name}-group"),
                **dict.fromkeys(("broker", "broker_id", "controller"), broker),
                **dict.fromkeys(("partition", "partition_id"), PARTITION),
            }
            case.path_parameters.update({each: there[each] for each in there if each in case.path_parameters})
            answer = case.call_and_validate(checks=held, timeout=60)
            if case.method == "GET" and answer.status_code == 200:
                seen.add(case.operation.path)

        check()
        tried.append(found.ok().label)
    assert len(tried) > 100
    assert len(seen) >= SEEN_MIN, sorted(seen)


def fill(bootstrap: str, topic: str, group: str) -> None:
    """Make a topic with a few records, and a group with a place in it."""
    create_topic(bootstrap, topic, 1, 1)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(10):
        producer.produce(topic, b'{"number": %d}' % number, b"k%d" % number)
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, PARTITION, 3)], asynchronous=False)
    consumer.close()
