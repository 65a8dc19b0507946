"""Acceptance 8: malformed and invalid input is answered as Apache Kafka 4.3.0 answered it, and nobody else notices.

The rows were recorded by tools/record_kafka_answers.py. Where Kvorum differs on purpose, the row says how and why.
"""

import pytest

from tests.cluster.wire.case import Case
from tests.cluster.wire.table import CASES, read_rows
from tests.cluster.wire.world import NormalClient, World

ROWS = read_rows()


def test_every_case_has_one_row_and_every_row_a_case() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
    assert set(names) == set(ROWS)
    assert all(ROWS[case.name]["sent"] == case.sent for case in CASES)


def test_every_difference_is_real_and_has_its_reason() -> None:
    for name, row in ROWS.items():
        assert ("kvorum" in row) == ("why" in row), name
        if "kvorum" in row:
            assert row["why"] and row["kvorum"] != row["kafka"], name


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_answer_is_kafkas(case: Case, address: tuple[str, int], normal_client: NormalClient) -> None:
    row = ROWS[case.name]
    answer = case.run(World(*address, case=case.name))
    normal_client.assert_served()
    assert answer == row.get("kvorum", row["kafka"]), f"sent: {case.sent}; answered: {answer}"
