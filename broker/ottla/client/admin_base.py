"""What the parts of `AdminClient` share: whom they ask, and for how long."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar, Unpack

from ottla.client.cluster import NOT_THERE_YET, Cluster
from ottla.client.cluster_user import ClusterOptions, ClusterUser
from ottla.client.connection import ResponseT, SendOptions
from ottla.errors import KafkaError
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

    async def _retry_each(
        self, names: Iterable[str], attempt: Callable[[Sequence[str]], Awaitable[Mapping[str, KafkaError]]]
    ) -> dict[str, KafkaError]:
        """Call ``attempt``, which returns refusals by name, again about those names for which that may help.

        Returns:
            The refusals that stay.

        Raises:
            The failure of an attempt as a whole.
        """
        left, refused = list(names), dict[str, KafkaError]()

        async def once() -> None:
            nonlocal left
            answer = await attempt(left)
            for name in left:
                refused.pop(name, None)
            refused.update(answer)
            left = [name for name, it in answer.items() if it.code.is_retriable and it.code not in NOT_THERE_YET]
            if left:
                raise answer[left[0]]

        try:
            await self._retry(once)
        except KafkaError as error:
            if error not in refused.values():
                raise
        return refused

    async def _retry(self, attempt: Callable[[], Awaitable[ResultT]]) -> ResultT:
        return await self.cluster.retry(attempt)
