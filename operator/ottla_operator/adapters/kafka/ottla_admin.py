"""The `BrokerAdmin` port over Ottla's own client, which speaks Kafka's protocol."""

from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from ottla.client.admin import AdminClient
from ottla.client.admin_features import UpgradeType
from ottla.client.admin_partitions import ElectionType
from ottla.client.admin_security import QuotaEntity, ScramSecret
from ottla.client.admin_topics import TopicCreation
from ottla.client.errors import ClientError, ConnectionLostError, RequestTimeoutError
from ottla.client.rebalance_plan import largest_replicas
from ottla.client.results import PartitionDescription, QuorumReplica, Reassignment
from ottla.config.resource_type import ConfigResourceType
from ottla.errors import ConfigurationError, ErrorCode, KafkaError, ProtocolError
from ottla.types import Endpoint, TopicPartition
from ottla.wire.acl_codes import Acl
from ottla.wire.acl_filter import AclFilter
from ottla_operator.errors import BrokerUnreachableError, QuorumLostError
from ottla_operator.model.node_listeners import CONTROLLER_LISTENER
from ottla_operator.ports.broker_admin import BrokerAdmin, Connect, NewTopic, TopicDescription
from ottla_operator.ports.cluster_view import ClusterView, FeatureView, PartitionView, QuorumMember
from ottla_operator.ports.user_admin import UserDescription

if TYPE_CHECKING:
    from ottla.client.security import ClientSecurity

CLIENT_ID = "ottla-operator"
CAUGHT_UP_WITHIN_MS = 5_000
"""How recently, before the leader's response, a caught-up voter had all records."""
_NO_LEADER = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER})
"""Error codes of brokers that could not forward a request to the quorum's leader."""

_MIN_ISR = "min.insync.replicas"

REQUEST_TIMEOUT_S_MAX = 10.0
"""Of one call with its retries: a reconciliation must not block its cluster for longer; the next one retries."""


def connector(request_timeout_s: float = REQUEST_TIMEOUT_S_MAX) -> Connect:
    """Return a function that connects to brokers; its calls, with retries, take at most ``request_timeout_s``."""

    @asynccontextmanager
    async def connect(bootstrap_servers: str, properties: Mapping[str, str]) -> AsyncIterator[BrokerAdmin]:
        client = AdminClient(
            bootstrap_servers, client_id=CLIENT_ID, request_timeout_s=request_timeout_s, security=_security(properties)
        )
        async with client:
            yield OttlaAdmin(client)

    return connect


class OttlaAdmin:
    """An `AdminClient` behind the port."""

    def __init__(self, client: AdminClient) -> None:
        self._client = client

    async def observe(
        self, *, topics: Sequence[str] | None = None, with_min_isr: bool = False, with_settings: bool = False
    ) -> ClusterView:
        """See `BrokerAdmin.observe`: records committed before this call are in the view, whichever broker responds."""
        with _unreachable():
            # Reassignments first: one that completes in between is seen in progress, not as a topic with more replicas.
            async with self._detect_lost_quorum():
                moving = await self._client.list_partition_reassignments()
                quorum = await self._client.describe_quorum()
            responder = await self._client.wait_for_metadata(quorum.high_watermark - 1)
            cluster = await self._client.describe_cluster(include_fenced=True)
            described = await self._client.describe_topic_partitions(topics)
            min_isr = await self._client.describe_topic_config(sorted(described), _MIN_ISR) if with_min_isr else {}
            configs = await self._client.describe_configs(ConfigResourceType.BROKER, "") if with_settings else []
            features = await self._client.describe_features() if with_settings else {}
        self._require_same_broker(responder)
        now_ms = max((voter.last_caught_up_timestamp_ms for voter in quorum.voters), default=-1)
        return ClusterView(
            cluster_id=cluster.cluster_id,
            brokers={broker.node_id: broker.is_fenced for broker in cluster.brokers},
            racks={broker.node_id: broker.rack for broker in cluster.brokers},
            controller_id=quorum.leader_id,
            voters=tuple(_member(voter, now_ms) for voter in quorum.voters),
            observers=tuple(_member(observer, now_ms) for observer in quorum.observers),
            partitions=tuple(
                _partition(TopicPartition(name, entry.partition), entry, moving)
                for name in sorted(described)
                for entry in described[name].partitions
            ),
            min_isr={name: int(value) for name, value in min_isr.items()},
            configs={it.name: it.value for it in configs if it.value is not None},
            features={
                name: FeatureView(level=it.level, last_supported=it.last_supported) for name, it in features.items()
            },
        )

    async def advertised_listeners(self, node_id: int) -> str:
        with _unreachable():
            entries = await self._client.describe_configs(ConfigResourceType.BROKER, str(node_id))
        return next((it.value for it in entries if it.name == "advertised.listeners" and it.value), "")

    async def describe_users(self, names: Collection[str]) -> Mapping[str, UserDescription]:
        # One user is requested by name; for several, one response with all users is smaller than one for each.
        one = next(iter(names)) if len(names) == 1 else None
        entity = None if one is None else QuotaEntity(user=one)
        wanted = AclFilter(principal=None if one is None else f"User:{one}")
        acls: defaultdict[str, set[Acl]] = defaultdict(set)
        has_authorizer = False
        with _unreachable():
            async with self._detect_lost_quorum():
                quorum = await self._client.describe_quorum()
            responder = await self._client.wait_for_metadata(quorum.high_watermark - 1)
            with _ignoring(ErrorCode.SECURITY_DISABLED):
                for acl in await self._client.describe_acls(wanted):
                    acls[acl.principal].add(acl)
                has_authorizer = True
            scram = await self._client.describe_scram(list(names))
            quotas = await self._client.describe_client_quotas(entity)
        self._require_same_broker(responder)
        return {
            name: UserDescription(
                acls=frozenset(acls[f"User:{name}"]) if has_authorizer else None,
                scram=scram.get(name, {}),
                quotas=quotas.get(QuotaEntity(user=name), {}),
            )
            for name in names
        }

    async def alter_scram(self, name: str, *, upserts: Sequence[ScramSecret], deletions: Sequence[int]) -> None:
        with _unreachable():
            if upserts:
                await self._client.alter_scram(upserts={name: upserts})
            for mechanism in deletions:
                with _ignoring(ErrorCode.RESOURCE_NOT_FOUND):
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

    async def describe_own_configs(self, node_ids: Sequence[int]) -> Mapping[int, Mapping[str, str]]:
        with _unreachable():
            return await self._client.describe_own_broker_configs(node_ids)

    async def alter_own_configs(self, node_id: int, *, upserts: Mapping[str, str], deletions: Sequence[str]) -> None:
        with _unreachable():
            await self._client.alter_configs(
                ConfigResourceType.BROKER, str(node_id), upserts=upserts, deletions=deletions
            )

    async def describe_sizes(self) -> Mapping[TopicPartition, int]:
        with _unreachable():
            return largest_replicas(await self._client.describe_log_dirs())

    async def reassign_partitions(self, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
        with _unreachable():
            rejected = await self._client.alter_partition_reassignments(dict(targets))
        for partition, error in rejected.items():
            raise KafkaError(error.code, f"partition {partition}: {error.message or error.code.name}")

    async def elect_preferred_leaders(self, partitions: Sequence[TopicPartition]) -> None:
        with _unreachable():
            await self._client.elect_leaders(ElectionType.PREFERRED, partitions)

    async def unregister_broker(self, node_id: int) -> None:
        with _unreachable(), _ignoring(ErrorCode.BROKER_ID_NOT_REGISTERED):
            await self._client.unregister_broker(node_id)

    async def alter_broker_configs(self, *, upserts: Mapping[str, str], deletions: Sequence[str]) -> None:
        with _unreachable():
            await self._client.alter_configs(ConfigResourceType.BROKER, "", upserts=upserts, deletions=deletions)

    async def update_features(self, levels: Mapping[str, int], *, is_down: bool) -> None:
        way = UpgradeType.SAFE_DOWNGRADE if is_down else UpgradeType.UPGRADE
        with _unreachable():
            await self._client.update_features(levels, way)

    async def add_voter(self, node_id: int, directory_id: str, endpoint: Endpoint) -> None:
        with _unreachable(), _ignoring(ErrorCode.DUPLICATE_VOTER):
            await self._client.add_raft_voter(node_id, directory_id, [(CONTROLLER_LISTENER, endpoint)])

    async def remove_voter(self, node_id: int, directory_id: str) -> None:
        with _unreachable(), _ignoring(ErrorCode.VOTER_NOT_FOUND):
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

    async def create_topics(self, topics: Sequence[NewTopic]) -> Mapping[str, KafkaError]:
        with _unreachable():
            return await self._client.create_topics(
                TopicCreation(
                    name=topic.name,
                    partitions=topic.partitions,
                    replication_factor=topic.replication_factor,
                    config=topic.config,
                )
                for topic in topics
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

    @asynccontextmanager
    async def _detect_lost_quorum(self) -> AsyncIterator[None]:
        """Raise `QuorumLostError` if a broker responds and only the leader of the metadata quorum is missing."""
        try:
            yield
        except (ConnectionLostError, RequestTimeoutError, KafkaError) as error:
            if isinstance(error, KafkaError) and error.code not in _NO_LEADER:
                raise
            responder = await self._client.cluster.reach_any()
            message = f"{responder} responds, but no leader of the metadata quorum does"
            raise QuorumLostError(message) from error

    def _require_same_broker(self, responder: Endpoint) -> None:
        if self._client.cluster.last_responder != responder:
            # Another broker may have other metadata: parts of two views are none.
            raise BrokerUnreachableError(f"broker {responder} went away while it described the cluster")


def _security(properties: Mapping[str, str]) -> "ClientSecurity | None":
    if not properties:
        return None
    # Most local clusters have no authentication, and should not wait for this import.
    from ottla.client.security import ClientSecurity

    try:
        return ClientSecurity.from_properties(properties)
    except ConfigurationError as error:
        raise BrokerUnreachableError(f"the operator's client properties are invalid: {error}") from error


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
def _ignoring(code: ErrorCode) -> Iterator[None]:
    """Ignore the error ``code``, which says that the requested state is there already."""
    try:
        yield
    except KafkaError as error:
        if error.code is not code:
            raise


@contextmanager
def _unreachable() -> Iterator[None]:
    """Turn every failure other than a broker's error response into the operator's own error."""
    try:
        yield
    except (ClientError, ProtocolError, ConfigurationError) as error:
        # The rest of the message is advice for users of the command line.
        raise BrokerUnreachableError(str(error).partition(";")[0]) from error
