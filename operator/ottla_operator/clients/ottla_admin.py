"""The `BrokerAdmin` port over Ottla's own client, that is, Kafka's protocol."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from ottla.client.admin import AdminClient
from ottla.client.admin_partitions import ElectionType
from ottla.client.admin_security import QuotaEntity, ScramSecret
from ottla.client.errors import ClientError
from ottla.client.results import PartitionDescription, QuorumReplica, Reassignment
from ottla.errors import ConfigurationError, ErrorCode, KafkaError, ProtocolError
from ottla.types import Endpoint, TopicPartition
from ottla.wire.acl_codes import Acl
from ottla.wire.acl_filter import AclFilter
from ottla_operator.clients.broker_admin import BrokerAdmin, Connect, NewTopic, TopicDescription
from ottla_operator.clients.user_admin import UserDescription
from ottla_operator.errors import BrokerUnreachableError
from ottla_operator.model.node_doors import CONTROLLER_LISTENER
from ottla_operator.reconcile.view import ClusterView, PartitionView, QuorumMember

if TYPE_CHECKING:
    from ottla.client.security import ClientSecurity

CLIENT_ID = "ottla-operator"
CAUGHT_UP_WITHIN_MS = 5_000
"""A voter that had everything so short a time before the leader's answer is not behind."""
_MIN_ISR = "min.insync.replicas"

REQUEST_TIMEOUT_S_MAX = 10.0
"""Of one call with its retries: a pass must not hold its cluster for longer; whoever made it tries again."""


def connector(request_timeout_s: float = REQUEST_TIMEOUT_S_MAX) -> Connect:
    """Return the way to brokers whose calls, with their retries, take no longer than ``request_timeout_s``."""

    @asynccontextmanager
    async def connect(bootstrap_servers: str, properties: Mapping[str, str]) -> AsyncIterator[BrokerAdmin]:
        client = AdminClient(
            bootstrap_servers, client_id=CLIENT_ID, request_timeout_s=request_timeout_s, security=_security(properties)
        )
        async with client:
            yield OttlaAdmin(client)

    return connect


class OttlaAdmin:
    """An `AdminClient` as the reconciler sees it."""

    def __init__(self, client: AdminClient) -> None:
        self._client = client

    async def observe(self, *, topics: Sequence[str] | None = None, with_min_isr: bool = False) -> ClusterView:
        """See `BrokerAdmin.observe`: what was committed before this call is in the view, whichever broker answers."""
        with _unreachable():
            # Moves first: one that ends meanwhile is seen as under way, not as a topic with more replicas.
            moving = await self._client.list_partition_reassignments()
            quorum = await self._client.describe_quorum()
            asked = await self._client.wait_for_metadata(quorum.high_watermark - 1)
            cluster = await self._client.describe_cluster(include_fenced=True)
            described = await self._client.describe_topic_partitions(topics)
            min_isr = await self._client.describe_topic_config(sorted(described), _MIN_ISR) if with_min_isr else {}
        self._require_still(asked)
        now_ms = max((voter.last_caught_up_timestamp_ms for voter in quorum.voters), default=-1)
        return ClusterView(
            cluster_id=cluster.cluster_id,
            brokers={broker.node_id: broker.is_fenced for broker in cluster.brokers},
            controller_id=quorum.leader_id,
            voters=tuple(_member(voter, now_ms) for voter in quorum.voters),
            observers=tuple(_member(observer, now_ms) for observer in quorum.observers),
            partitions=tuple(
                _partition(TopicPartition(name, entry.partition), entry, moving)
                for name in sorted(described)
                for entry in described[name].partitions
            ),
            min_isr={name: int(value) for name, value in min_isr.items()},
        )

    async def describe_user(self, name: str) -> UserDescription:
        entity, principal = QuotaEntity(user=name), f"User:{name}"
        with _unreachable():
            quorum = await self._client.describe_quorum()
            asked = await self._client.wait_for_metadata(quorum.high_watermark - 1)
            acls: frozenset[Acl] | None = None
            with _settled(ErrorCode.SECURITY_DISABLED):
                acls = frozenset(await self._client.describe_acls(AclFilter(principal=principal)))
            scram = await self._client.describe_scram([name])
            quotas = await self._client.describe_client_quotas(entity)
        self._require_still(asked)
        return UserDescription(acls=acls, scram=scram.get(name, {}), quotas=quotas.get(entity, {}))

    async def alter_scram(self, name: str, *, upserts: Sequence[ScramSecret], deletions: Sequence[int]) -> None:
        with _unreachable():
            if upserts:
                await self._client.alter_scram(upserts={name: upserts})
            for mechanism in deletions:
                with _settled(ErrorCode.RESOURCE_NOT_FOUND):
                    await self._client.alter_scram(deletions=[(name, mechanism)])

    async def create_acls(self, acls: Sequence[Acl]) -> None:
        with _unreachable():
            await self._client.create_acls(acls)

    async def delete_acls(self, acls: Sequence[Acl]) -> None:
        with _unreachable():
            await self._client.delete_acls(map(AclFilter.of, acls))

    async def alter_quotas(self, name: str, limits: Mapping[str, float | None]) -> None:
        with _unreachable():
            await self._client.alter_client_quotas({QuotaEntity(user=name): limits})

    async def reassign_partitions(self, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
        with _unreachable():
            refused = await self._client.alter_partition_reassignments(dict(targets))
        for partition, error in refused.items():
            raise KafkaError(error.code, f"partition {partition}: {error.message or error.code.name}")

    async def elect_preferred_leaders(self, partitions: Sequence[TopicPartition]) -> None:
        with _unreachable():
            await self._client.elect_leaders(ElectionType.PREFERRED, partitions)

    async def unregister_broker(self, node_id: int) -> None:
        with _unreachable(), _settled(ErrorCode.BROKER_ID_NOT_REGISTERED):
            await self._client.unregister_broker(node_id)

    async def add_voter(self, node_id: int, directory_id: str, endpoint: Endpoint) -> None:
        with _unreachable(), _settled(ErrorCode.DUPLICATE_VOTER):
            await self._client.add_raft_voter(node_id, directory_id, [(CONTROLLER_LISTENER, endpoint)])

    async def remove_voter(self, node_id: int, directory_id: str) -> None:
        with _unreachable(), _settled(ErrorCode.VOTER_NOT_FOUND):
            await self._client.remove_raft_voter(node_id, directory_id)

    async def describe_topics(self, names: Sequence[str]) -> Mapping[str, TopicDescription]:
        with _unreachable():
            described = await self._client.describe_topics(names)
        return {
            name: TopicDescription(
                name=name,
                topic_id=topic.topic_id,
                replicas=tuple(partition.replicas for partition in topic.partitions),
                is_in_sync=not any(partition.is_under_replicated for partition in topic.partitions),
            )
            for name, topic in described.items()
        }

    async def describe_topic_configs(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        with _unreachable():
            return await self._client.describe_topic_configs(names)

    async def create_topic(self, topic: NewTopic, *, validate_only: bool = False) -> None:
        with _unreachable():
            await self._client.create_topic(
                topic.name,
                partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                config=topic.config,
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

    def _require_still(self, asked: Endpoint) -> None:
        if self._client.cluster.answered_by != asked:
            # Another broker need not know what this one does: half a picture of each is none.
            raise BrokerUnreachableError(f"broker {asked} went away while it described the cluster")


def _security(properties: Mapping[str, str]) -> "ClientSecurity | None":
    if not properties:
        return None
    # Most clusters on a laptop ask nobody who they are, and should not wait for what that takes.
    from ottla.client.security import ClientSecurity

    try:
        return ClientSecurity.from_properties(properties)
    except ConfigurationError as error:
        raise BrokerUnreachableError(f"the properties of the operator's client cannot be used: {error}") from error


def _member(replica: QuorumReplica, now_ms: int) -> QuorumMember:
    return QuorumMember(
        node_id=replica.node_id,
        directory_id=replica.directory_id,
        is_caught_up=replica.last_caught_up_timestamp_ms >= now_ms - CAUGHT_UP_WITHIN_MS,
    )


def _partition(
    partition: TopicPartition, described: PartitionDescription, moving: Mapping[TopicPartition, Reassignment]
) -> PartitionView:
    move = moving.get(partition)
    return PartitionView(
        partition=partition,
        leader=described.leader,
        replicas=described.replicas,
        isr=described.isr,
        adding=move.adding if move else (),
        removing=move.removing if move else (),
    )


@contextmanager
def _settled(code: ErrorCode) -> Iterator[None]:
    """Take the refusal ``code`` for what it is: what was asked for is so already."""
    try:
        yield
    except KafkaError as error:
        if error.code is not code:
            raise


@contextmanager
def _unreachable() -> Iterator[None]:
    """Turn every failure that is no broker's refusal into the operator's own error."""
    try:
        yield
    except (ClientError, ProtocolError, ConfigurationError) as error:
        # What follows is advice for somebody at a command line.
        raise BrokerUnreachableError(str(error).partition(";")[0]) from error
