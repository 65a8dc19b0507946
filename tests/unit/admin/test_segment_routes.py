"""Segments over HTTP: those of the broker that the server stands beside, and a word of where the others are told."""

from kvorum.admin.v1.partitions.segment_routes import LocalLog, LocalSegment
from tests.unit.admin.fake import Client, call
from tests.unit.admin.managed import ManagedCluster, with_managed

PATH = "/v1/topics/t/partitions/0/segments"


class Files:
    """The disks of broker 2: t-0 lies in /a, and a copy is on its way to /b."""

    broker = 2
    fault: OSError | None = None

    def logs(self, topic: str, partition: int) -> list[LocalLog]:
        if self.fault is not None:
            raise self.fault
        if (topic, partition) != ("t", 0):
            return []
        rows = [
            LocalSegment(base, 1_000, 7, 16, 24 if base < 200 else None, None, 5 if base < 200 else None)
            for base in (0, 100, 200)
        ]
        return [LocalLog("/b", True, []), LocalLog("/a", False, rows)]


def test_segments_of_this_servers_own_broker_are_reported_in_pages() -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        cluster.place("t", [1, 2], [1, 3])
        status, page = await call(client, "GET", PATH)
        assert (status, page["broker"], page["log_dir"], page["future_log_dir"]) == (200, 2, "/a", "/b"), page
        assert (page["segment_count"], page["size_bytes"], page["next"]) == (3, 3_000, None)
        rows = [(row["base_offset"], row["next_offset"], row["max_timestamp_ms"]) for row in page["segments"]]
        assert rows == [(0, 100, 5), (100, 200, 5), (200, None, None)]
        first = (await call(client, "GET", f"{PATH}?limit=1&broker=2"))[1]
        assert ([row["next_offset"] for row in first["segments"]], first["next"]) == ([100], 0)
        rest = (await call(client, "GET", f"{PATH}?after=0"))[1]
        assert [row["base_offset"] for row in rest["segments"]] == [100, 200] and rest["segment_count"] == 3
        for path in ("/v1/topics/t/partitions/9/segments", "/v1/topics/none/partitions/0/segments"):
            assert (await call(client, "GET", path))[0] == 404

    with_managed(test, local=Files())


def test_moved_files_are_reported_with_their_new_location() -> None:
    async def test(client: Client, cluster: ManagedCluster) -> None:
        cluster.place("t", [1, 2], [1, 3])
        for path, words in (
            (f"{PATH}?broker=1", "of broker 2 only; use the server of broker 1"),
            (PATH.replace("/0/", "/1/"), "replicas are on 1, 3"),
        ):
            status, problem = await call(client, "GET", path)
            assert (status, problem["error"]) == (421, "MISDIRECTED_REQUEST") and words in problem["message"]

    with_managed(test, local=Files())

    async def beside_nobody(client: Client, cluster: ManagedCluster) -> None:
        cluster.place("t", [1])
        assert (await call(client, "GET", PATH))[0] == 421

    with_managed(beside_nobody)


def test_an_unreadable_disk_is_reported() -> None:
    files = Files()
    files.fault = OSError(5, "Input/output error")

    async def test(client: Client, cluster: ManagedCluster) -> None:
        cluster.place("t", [1, 2])
        status, problem = await call(client, "GET", PATH)
        assert problem["error"] == "KAFKA_STORAGE_ERROR" and "Input/output" in problem["message"] and status >= 400

    with_managed(test, local=files)
