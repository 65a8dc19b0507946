"""Without an authorizer, requests of nodes are permitted to the cluster's own principals only."""

import pytest

from kvorum.network.authorizer import CLUSTER_NAME, ClusterPrincipals, Operation, ResourceType
from kvorum.network.context import RequestContext
from kvorum.protocol.api import ApiKey
from kvorum.security.principal import ANONYMOUS, Principal

NODE, CLIENT = Principal("User", "node"), Principal("User", "client")
RULES = ClusterPrincipals({"INTERNAL": frozenset((NODE,))})


def may(
    principal: Principal,
    listener: str = "INTERNAL",
    operation: Operation = Operation.CLUSTER_ACTION,
    api_key: ApiKey = ApiKey.FETCH,
) -> bool:
    ctx = RequestContext(principal=principal, listener=listener, api_key=api_key)
    return RULES.authorize(ctx, operation, ResourceType.CLUSTER, CLUSTER_NAME)


def test_only_principals_of_the_cluster_act_as_nodes() -> None:
    assert may(NODE)
    assert not may(CLIENT) and not may(ANONYMOUS)
    assert not may(Principal("Group", "node"))


def test_everything_is_permitted_on_a_listener_without_authentication() -> None:
    assert may(ANONYMOUS, listener="PLAINTEXT")


@pytest.mark.parametrize("operation", [Operation.ALTER, Operation.DESCRIBE, Operation.CREATE, Operation.ALTER_CONFIGS])
def test_other_operations_are_permitted_to_everyone(operation: Operation) -> None:
    assert may(CLIENT, operation=operation)


def test_a_client_may_not_end_transactions_of_others() -> None:
    assert not may(CLIENT, operation=Operation.ALTER, api_key=ApiKey.WRITE_TXN_MARKERS)
    assert may(NODE, api_key=ApiKey.WRITE_TXN_MARKERS)
