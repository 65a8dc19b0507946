"""Lists that can grow come in pages, each with what the next one is asked with; and two who ask for a broker's duty."""

from collections.abc import Callable
from typing import Any

import pytest

from kvorum.admin.http.paging import behind
from kvorum.protocol.records import Record
from tests.unit.admin.fake import Client, call
from tests.unit.admin.managed import ManagedCluster, with_managed


def test_a_page_begins_behind_a_key_whether_it_is_still_there_or_not() -> None:
    rows = ["a", "b", "d"]
    assert behind(rows, str, None, 2) == (["a", "b"], True)
    assert behind(rows, str, "b", 2) == (["d"], False)
    assert behind(rows, str, "c", 1) == (["d"], False)
    assert behind(rows, str, "d", 1) == ([], False)
    assert behind([], str, None, 1) == ([], False)


def place(cluster: ManagedCluster) -> None:
    cluster.place("t", *([1, 2] for _ in range(5)))
    cluster.place("u", [1, 2])
    for topic, index in (("u", 0), ("t", 4), ("t", 1)):
        cluster.under_way[topic, index] = ([3], [2])
        cluster.replicas[topic, index] = [1, 3, 2]
    for name in ("a", "b", None):
        cluster.quotas[frozenset({("user", name), ("client-id", "a=b&c")})] = {"producer_byte_rate": 5.0}
        cluster.quotas[frozenset({("user", name)})] = {"producer_byte_rate": 5.0}


async def pages(client: Client, path: str) -> list[list[Any]]:
    """Follow the Links of a list to its end."""
    found = []
    here = path
    while True:
        async with client.get(here) as answer:
            rows = await answer.json()
            assert answer.status == 200, rows
            found.append(rows)
            link = answer.headers.get("Link")
        if link is None:
            return found
        assert link.endswith('>; rel="next"')
        here = path.partition("?")[0] + link[1 : link.index(">")]


Row = dict[str, Any]
LISTS: list[tuple[str, Callable[[Row], object], list[object]]] = [
    ("/v1/topics/t/partitions", lambda row: row["partition"], [0, 1, 2, 3, 4]),
    ("/v1/reassignments", lambda row: (row["topic"], row["partition"]), [("t", 1), ("t", 4), ("u", 0)]),
    ("/v1/reassignments?topic=t", lambda row: row["partition"], [1, 4]),
    (
        "/v1/quotas",
        lambda row: tuple(part["name"] for part in row["entity"]),
        [(None, "a=b&c"), ("a", "a=b&c"), ("b", "a=b&c"), (None,), ("a",), ("b",)],
    ),
    ("/v1/quotas?any=user", lambda row: tuple(part["name"] for part in row["entity"]), [(None,), ("a",), ("b",)]),
]


@pytest.mark.parametrize(("path", "name", "wanted"), LISTS, ids=[path for path, _, _ in LISTS])
def test_a_list_is_reported_page_by_page(path: str, name: Callable[[Row], object], wanted: list[object]) -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        place(cluster)
        assert [[name(row) for row in page] for page in await pages(client, path)] == [wanted]
        limited = await pages(client, f"{path}{'&' if '?' in path else '?'}limit=2")
        assert [len(page) for page in limited[:-1]] == [2] * (len(limited) - 1) and len(limited[-1]) in (1, 2)
        assert [name(row) for page in limited for row in page] == wanted

    with_managed(test)


def test_the_replicas_of_a_directory_come_the_largest_first_page_by_page() -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        place(cluster)
        for index in (3, 1):
            cluster.logs["t"][index].append(Record(value=bytes(100 * index)))
        cluster.lies[1, "t", 2] = "/b"
        path = "/v1/brokers/1/log-dirs"

        def reported(directory: Row) -> tuple[str, int, list[tuple[str, int]], str | None]:
            rows = [(row["topic"], row["partition"]) for row in directory["partitions"]]
            return directory["log_dir"], directory["replicas"], rows, directory["next"]

        first, second = (await call(client, "GET", f"{path}?limit=2"))[1]
        size = len(cluster.logs["t"][1].batches[0])
        assert reported(first) == ("/a", 5, [("t", 3), ("t", 1)], f"{size}:t:1:0")
        assert reported(second) == ("/b", 1, [("t", 2)], None)
        query = f"{path}?limit=2&log_dir=/a&after="
        (page,) = (await call(client, "GET", query + first["next"]))[1]
        assert reported(page) == ("/a", 5, [("t", 0), ("t", 4)], "0:t:4:0")
        (page,) = (await call(client, "GET", query + page["next"]))[1]
        assert reported(page) == ("/a", 5, [("u", 0)], None)
        only = (await call(client, "GET", f"{path}?topic=u"))[1]
        assert [(row["log_dir"], row["replicas"]) for row in only] == [("/a", 1), ("/b", 0)]
        for wrong in ("after=0:t:4:0", "log_dir=/a&after=x", "log_dir=/a&after=x:t:0:0"):
            status, problem = await call(client, "GET", f"{path}?{wrong}")
            assert (status, problem["field"]) == (400, "after"), wrong

    with_managed(test)


@pytest.mark.parametrize("limit", ["0", "10001", "x"])
def test_a_page_has_a_size_that_can_be(limit: str) -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        place(cluster)
        for path in ("/v1/topics/t/partitions", "/v1/reassignments", "/v1/quotas", "/v1/brokers/1/log-dirs"):
            assert (await call(client, "GET", f"{path}?limit={limit}"))[1]["field"] == "limit", path

    with_managed(test)


def test_concurrent_changes_of_a_brokers_admin_state_do_not_overwrite_each_other() -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        cluster.place("t", [1, 2])
        maintenance, decommission = "/v1/brokers/2/maintenance", "/v1/brokers/2/decommission"

        async def tag(path: str) -> str:
            async with client.get(path) as answer:
                return answer.headers["ETag"]

        seen = {path: await tag(path) for path in (maintenance, decommission)}
        cluster.place("more", [2, 1])
        assert await tag(maintenance) == seen[maintenance], "of what is asked, not of how far it is"
        headers = {"If-Match": seen[maintenance]}
        assert (await call(client, "PUT", maintenance, headers=headers))[0] == 200
        assert (await call(client, "PUT", maintenance, headers=headers))[0] == 412
        assert (await call(client, "DELETE", maintenance, headers=headers))[0] == 412
        late = {"If-Match": seen[decommission]}
        assert (await call(client, "PUT", decommission, {}, headers=late))[0] == 412
        assert (await call(client, "DELETE", "/v1/brokers/2", headers=late))[0] == 412
        assert cluster.config(4, "2") == {"kvorum.broker.state": "maintenance"}
        now = {"If-Match": await tag(maintenance)}
        assert (await call(client, "DELETE", maintenance, headers=now))[0] == 200
        assert cluster.config(4, "2") == {"kvorum.broker.state": "active"}

    with_managed(test)
