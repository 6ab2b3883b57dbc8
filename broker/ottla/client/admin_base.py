"""The base of the parts of `AdminClient`: requests to any broker, and retries."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar, Unpack

from ottla.client.cluster import NOT_THERE_YET, Cluster
from ottla.client.cluster_user import ClusterOptions, ClusterUser
from ottla.client.connection import ResponseT, SendOptions
from ottla.errors import KafkaError
from ottla.types import Endpoint, NodeId, TopicPartition
from ottla.wire.codec import Message

ResultT = TypeVar("ResultT")


class AdminBase(ClusterUser):
    """Sends requests to any broker, and retries them."""

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

    async def _send_to_any(
        self, request: Message, response_type: type[ResponseT], **options: Unpack[SendOptions]
    ) -> ResponseT:
        options.setdefault("timeout_s", self.cluster.attempt_timeout_s)
        return await self.cluster.send_to_any(request, response_type, **options)

    async def _by_leader(self, partitions: Iterable[TopicPartition]) -> dict[NodeId, list[TopicPartition]]:
        by_leader: dict[NodeId, list[TopicPartition]] = {}
        for partition in partitions:
            by_leader.setdefault(await self.cluster.leader(partition), []).append(partition)
        return by_leader

    async def _retry_each(
        self, names: Iterable[str], attempt: Callable[[Sequence[str]], Awaitable[Mapping[str, KafkaError]]]
    ) -> dict[str, KafkaError]:
        """Call ``attempt``, which returns errors by name, and call it again for the names with a retriable error.

        Returns:
            The errors that remain.

        Raises:
            The failure of an attempt as a whole.
        """
        left, errors = list(names), dict[str, KafkaError]()

        async def once() -> None:
            nonlocal left
            found = await attempt(left)
            for name in left:
                errors.pop(name, None)
            errors.update(found)
            left = [name for name, it in found.items() if it.code.is_retriable and it.code not in NOT_THERE_YET]
            if left:
                raise found[left[0]]

        try:
            await self._retry(once)
        except KafkaError as error:
            if error not in errors.values():
                raise
        return errors

    async def _retry(self, attempt: Callable[[], Awaitable[ResultT]]) -> ResultT:
        return await self.cluster.retry(attempt)
