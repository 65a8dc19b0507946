"""The admin API of a running node, tried by a program that knows nothing of it but /openapi.json (Schemathesis).

Whatever it sends, nothing fails on our side, and each answer has a status, a media type and a shape of the document's.
"""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings

from tests.cluster.clients import create_topic
from tests.cluster.conftest import Start

pytestmark = pytest.mark.cluster
EXAMPLES = 4
ENDLESS = r"(/stream|/events)$"


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
    create_topic(cluster.plan.bootstrap, "t", 1, 1)
    schema = schemathesis.openapi.from_url(f"{cluster.plan.admin_urls()[0]}/openapi.json")
    tried = 0
    for found in schema.exclude(path_regex=ENDLESS).get_all_operations():

        @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
        @given(case=found.ok().as_strategy())
        def check(case) -> None:
            # What all of Confluent's paths begin with nobody can guess; nor, mostly, what there is.
            there = {"cluster_id": cluster.plan.cluster_id, **({"topic_name": "t"} if case.method == "GET" else {})}
            case.path_parameters.update({name: there[name] for name in there if name in case.path_parameters})
            case.call_and_validate(checks=held, timeout=60)

        check()
        tried += 1
    assert tried > 30
