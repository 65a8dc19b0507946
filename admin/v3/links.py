"""URLs and resource names (crn:///kafka=CLUSTER/topic=NAME)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from kvorum.admin.http.access import HttpError
from kvorum.admin.http.operations import Call
from kvorum.admin.v3.models import CollectionMetadata, Relationship, ResourceMetadata
from kvorum.admin.v3.path_parameters import CLUSTER_ID
from kvorum.client.namespaces.metadata import Metadata
from kvorum.client.values.cluster import ClusterDescription

CLUSTER = "/v3/clusters/{cluster_id}"
TOPIC = f"{CLUSTER}/topics/{{topic_name}}"
PARTITION = f"{TOPIC}/partitions/{{partition_id}}"
BROKER = f"{CLUSTER}/brokers/{{broker_id}}"


@dataclass(frozen=True, slots=True)
class Links:
    """Links of one cluster, relative to the caller's address."""

    base_url: str
    cluster_id: str

    def url(self, *parts: str | int) -> str:
        """Return the URL of something in the cluster, by the parts of its path."""
        whole = "/".join(quote(str(part), safe="") for part in ("v3", "clusters", self.cluster_id, *parts))
        return f"{self.base_url}/{whole}"

    def relationship(self, *parts: str | int) -> Relationship:
        """Return the link to something in the cluster."""
        return Relationship(related=self.url(*parts))

    def metadata(self, parts: Sequence[str | int], *names: tuple[str, str | int | None]) -> ResourceMetadata:
        """Return a resource's link and name; a name without a value is single."""
        crn = "/".join(
            kind if name is None else f"{kind}={str(name).strip('/')}"
            for kind, name in (("kafka", self.cluster_id), *names)
        )
        return ResourceMetadata(self=self.url(*parts), resource_name=f"crn:///{crn}")

    def collection(self, *parts: str | int) -> CollectionMetadata:
        """Return the links of a list; there are no pages."""
        return CollectionMetadata(self=self.url(*parts))


def not_found(message: str = "HTTP 404 Not Found") -> HttpError:
    """Return the error of a missing resource."""
    return HttpError(404, "NOT_FOUND", message)


async def cluster_of(call: Call[Any]) -> ClusterDescription:
    """Return the cluster that the path names. Raises HttpError where it is another one."""
    found = await Metadata(call.cluster).cluster(fenced=False)
    wanted = CLUSTER_ID.of(call)
    if wanted != found.cluster_id:
        raise not_found(f"Cluster {wanted} cannot be found.")
    return found


async def links_of(call: Call[Any]) -> Links:
    """Return the links of the cluster that the path names. Raises HttpError where it is another one."""
    return Links(call.base_url, (await cluster_of(call)).cluster_id)
