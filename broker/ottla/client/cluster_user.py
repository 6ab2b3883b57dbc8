"""`ClusterUser`: the base of clients that use a cluster through connections of their own or through shared ones."""

from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypedDict, Unpack

from ottla.client.cluster import Cluster
from ottla.types import Endpoint

if TYPE_CHECKING:
    from ottla.client.security import ClientSecurity


class ClusterOptions(TypedDict, total=False):
    """Options of a client's own `Cluster`."""

    client_id: str
    request_timeout_s: float
    connect_timeout_s: float
    security: "ClientSecurity | None"


class ClusterUser:
    """Owns its `Cluster` unless it was created with one. Use with ``async with``, or call `close`."""

    def __init__(
        self, bootstrap_servers: str | Iterable[Endpoint] | Cluster, **options: Unpack[ClusterOptions]
    ) -> None:
        """Take addresses (see `Cluster`), or a cluster that its owner closes."""
        self._owns_cluster = not isinstance(bootstrap_servers, Cluster)
        self.cluster = (
            bootstrap_servers if isinstance(bootstrap_servers, Cluster) else Cluster(bootstrap_servers, **options)
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, unless they are shared."""
        if self._owns_cluster:
            await self.cluster.close()
