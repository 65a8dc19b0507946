"""SCRAM credentials as a broker's clients see them: described from its metadata, changed by the controller."""

from typing import Any

import pytest

from kvorum.network.authorizer import CLUSTER_NAME, AllowAll, ClusterPrincipals, Operation, ResourceType
from kvorum.protocol.errors import ErrorCode, KafkaError
from kvorum.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kvorum.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kvorum.quorum.records import UserScramCredential
from kvorum.security.principal import ANONYMOUS, Principal
from tests.unit.broker.api.api_kit import Forwarded, Rules, a_broker, ask, three_brokers


def scram(user: str, mechanism: int, iterations: int) -> UserScramCredential:
    return UserScramCredential(
        name=user,
        mechanism=mechanism,
        salt=b"a secret salt",
        stored_key=b"a secret key",
        server_key=b"a secret key",
        iterations=iterations,
    )


USERS = [scram("bob", 2, 4096), scram("ann", 2, 4096), scram("ann", 1, 8192)]


def describe(*users: str, everything: bool = False, **parts: Any) -> Any:
    request = DescribeUserScramCredentialsRequest(users=None if everything else [UserName(name=user) for user in users])
    return ask(a_broker(*three_brokers(), *USERS, **parts), request, 0)


def rows(answer: Any) -> list[tuple[Any, ...]]:
    return [
        (
            row.user,
            row.error_code,
            row.error_message,
            [(info.mechanism, info.iterations) for info in row.credential_infos],
        )
        for row in answer.results
    ]


ANN, BOB = ("ann", 0, None, [(1, 8192), (2, 4096)]), ("bob", 0, None, [(2, 4096)])


def test_without_names_all_users_are_described() -> None:
    for answer in (describe(), describe(everything=True)):
        assert (answer.error_code, answer.error_message) == (0, None)
        assert rows(answer) == [ANN, BOB]
    assert "secret" not in repr(answer)


def test_users_are_described_in_the_order_of_the_request() -> None:
    missing = "Attempt to describe a user credential that does not exist: eve"
    twice = "Cannot describe SCRAM credentials for the same user twice in a single request: ann"
    assert rows(describe("bob", "eve", "ann")) == [BOB, ("eve", ErrorCode.RESOURCE_NOT_FOUND, missing, []), ANN]
    assert rows(describe("ann", "bob", "ann")) == [("ann", ErrorCode.DUPLICATE_RESOURCE, twice, []), BOB]


def test_without_permission_the_whole_answer_is_an_error() -> None:
    """Apache Kafka 4.3.0 does not answer at all if all users are wanted."""
    rules = Rules({(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)})
    for answer in (describe(everything=True, authorizer=rules), describe("ann", authorizer=rules)):
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert answer.error_message == "Cluster authorization failed."
        assert not answer.results


def test_keys_are_for_nodes_that_request_them_only() -> None:
    node, users = Principal("User", "node"), [UserName(name="bob")]
    rules = ClusterPrincipals({"PLAINTEXT": frozenset({node})})

    def keys(principal: Principal, authorizer: Any = rules, **options: bool) -> set[bytes]:
        request = DescribeUserScramCredentialsRequest(users=users, **options)
        broker = a_broker(*three_brokers(), *USERS, authorizer=authorizer)
        (info,) = ask(broker, request, 0, principal=principal).results[0].credential_infos
        assert "secret" not in repr(info)
        return {bytes(each) for each in (info.salt, info.stored_key, info.server_key)}

    assert keys(node, include_keys=True) == {b"a secret salt", b"a secret key"}
    assert keys(node) == {b""}
    assert keys(Principal("User", "ann"), include_keys=True) == {b""}
    assert keys(ANONYMOUS, AllowAll(), include_keys=True) == {b""}


def test_a_change_is_answered_as_the_controller_answers() -> None:
    result = AlterUserScramCredentialsResult(user="ann", error_code=ErrorCode.DUPLICATE_RESOURCE, error_message="twice")
    controller = Forwarded(lambda request: AlterUserScramCredentialsResponse(results=[result]))
    request = AlterUserScramCredentialsRequest(upsertions=[ScramCredentialUpsertion(name="ann", salt=b"s")])
    assert ask(a_broker(controller=controller), request, 0).results == [result]
    ((_, sent),) = controller.seen
    assert sent == request


@pytest.mark.parametrize("code", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER])
def test_without_a_controller_each_user_fails(code: ErrorCode) -> None:
    request = AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name="ann", mechanism=1)],
        upsertions=[ScramCredentialUpsertion(name="bob"), ScramCredentialUpsertion(name="ann")],
    )
    answer = ask(a_broker(controller=Forwarded(KafkaError(code, "why"))), request, 0)
    assert [(row.user, row.error_code, row.error_message) for row in answer.results] == [
        ("ann", code, "why"),
        ("bob", code, "why"),
    ]
