"""The `BrokerAdmin` port over Ottla's own client, that is, Kafka's protocol."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager

from ottla.client.admin import AdminClient
from ottla.client.errors import ClientError
from ottla.errors import ProtocolError
from ottla_operator.clients.broker_admin import BrokerAdmin, ClusterDescription, Connect, TopicDescription
from ottla_operator.errors import BrokerUnreachableError

CLIENT_ID = "ottla-operator"

REQUEST_TIMEOUT_S_MAX = 10.0
"""Of one call with its retries: a pass must not hold its cluster for longer; whoever made it tries again."""


def connector(request_timeout_s: float = REQUEST_TIMEOUT_S_MAX) -> Connect:
    """Return the way to brokers whose calls, with their retries, take no longer than ``request_timeout_s``."""

    @asynccontextmanager
    async def connect(bootstrap_servers: str) -> AsyncIterator[BrokerAdmin]:
        async with AdminClient(bootstrap_servers, client_id=CLIENT_ID, request_timeout_s=request_timeout_s) as client:
            yield OttlaAdmin(client)

    return connect


class OttlaAdmin:
    """An `AdminClient` as the reconciler sees it."""

    def __init__(self, client: AdminClient) -> None:
        self._client = client

    async def describe_cluster(self) -> ClusterDescription:
        with _unreachable():
            described = await self._client.describe_cluster()
        return ClusterDescription(
            cluster_id=described.cluster_id,
            controller_id=described.controller_id,
            broker_ids=tuple(broker.node_id for broker in described.brokers if not broker.is_fenced),
        )

    async def describe_topics(self, names: Sequence[str]) -> Mapping[str, TopicDescription]:
        with _unreachable():
            described = await self._client.describe_topics(names)
        return {
            name: TopicDescription(
                name=name,
                topic_id=topic.topic_id,
                partitions=topic.partition_count,
                replication_factor=topic.replication_factor,
            )
            for name, topic in described.items()
        }

    async def describe_topic_configs(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        with _unreachable():
            return await self._client.describe_topic_configs(names)

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int,
        replication_factor: int | None,
        config: Mapping[str, str],
        validate_only: bool = False,
    ) -> None:
        with _unreachable():
            await self._client.create_topic(
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                config=config,
                validate_only=validate_only,
            )

    async def create_partitions(self, name: str, *, total: int, validate_only: bool = False) -> None:
        with _unreachable():
            await self._client.create_partitions(name, total=total, validate_only=validate_only)

    async def alter_topic_configs(
        self, name: str, *, upserts: Mapping[str, str], deletions: Sequence[str], validate_only: bool = False
    ) -> None:
        with _unreachable():
            await self._client.alter_topic_configs(
                name, upserts=upserts, deletions=deletions, validate_only=validate_only
            )

    async def delete_topic(self, name: str) -> None:
        with _unreachable():
            await self._client.delete_topic(name)


@contextmanager
def _unreachable() -> Iterator[None]:
    """Turn every failure that is no broker's refusal into the operator's own error."""
    try:
        yield
    except (ClientError, ProtocolError) as error:
        # What follows is advice for somebody at a command line.
        raise BrokerUnreachableError(str(error).partition(";")[0]) from error
