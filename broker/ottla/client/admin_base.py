"""What the parts of `AdminClient` share: the cluster, its life, and retries."""

from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Self, TypeVar, Unpack

from ottla.client.cluster import Cluster
from ottla.client.connection import CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_S, ResponseT, SendOptions
from ottla.types import Endpoint
from ottla.wire.codec import Message

ResultT = TypeVar("ResultT")


class AdminBase:
    """Owns the `Cluster` unless it was handed one."""

    def __init__(
        self,
        bootstrap_servers: str | Iterable[Endpoint] | Cluster,
        *,
        client_id: str = "ottla-admin",
        request_timeout_s: float = REQUEST_TIMEOUT_S,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
    ) -> None:
        """Take addresses (see `Cluster`), or a cluster that somebody else closes."""
        self._owns_cluster = not isinstance(bootstrap_servers, Cluster)
        self.cluster = (
            bootstrap_servers
            if isinstance(bootstrap_servers, Cluster)
            else Cluster(
                bootstrap_servers,
                client_id=client_id,
                request_timeout_s=request_timeout_s,
                connect_timeout_s=connect_timeout_s,
            )
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, if they are this client's own."""
        if self._owns_cluster:
            await self.cluster.close()

    @property
    def _timeout_ms(self) -> int:
        """How long a broker may work on a request before it gives up."""
        return int(self.cluster.request_timeout_s * 1000)

    async def _ask(self, request: Message, answer: type[ResponseT], **options: Unpack[SendOptions]) -> ResponseT:
        options.setdefault("timeout_s", self.cluster.attempt_timeout_s)
        return await self.cluster.send_to_any(request, answer, **options)

    async def _retry(self, attempt: Callable[[], Awaitable[ResultT]]) -> ResultT:
        return await self.cluster.retry(attempt)
