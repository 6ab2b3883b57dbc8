"""What the parts of `AdminClient` share: whom they ask, and for how long."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar, Unpack

from ottla.client.cluster import Cluster
from ottla.client.cluster_user import ClusterOptions, ClusterUser
from ottla.client.connection import ResponseT, SendOptions
from ottla.types import Endpoint
from ottla.wire.codec import Message

ResultT = TypeVar("ResultT")


class AdminBase(ClusterUser):
    """What asks any broker, again and again until it has an answer."""

    def __init__(
        self,
        bootstrap_servers: str | Iterable[Endpoint] | Cluster,
        **options: Unpack[ClusterOptions],
    ) -> None:
        """See `ClusterUser`; ``client_id`` is "ottla-admin" unless ``options`` say otherwise."""
        options.setdefault("client_id", "ottla-admin")
        super().__init__(bootstrap_servers, **options)

    @property
    def _timeout_ms(self) -> int:
        """How long a broker may work on a request before it gives up."""
        return int(self.cluster.request_timeout_s * 1000)

    async def _ask(self, request: Message, answer: type[ResponseT], **options: Unpack[SendOptions]) -> ResponseT:
        options.setdefault("timeout_s", self.cluster.attempt_timeout_s)
        return await self.cluster.send_to_any(request, answer, **options)

    async def _retry(self, attempt: Callable[[], Awaitable[ResultT]]) -> ResultT:
        return await self.cluster.retry(attempt)
