"""What `ottla export` reads of a running cluster: topics, and all principals with a password, entries or limits."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.cli.exit_codes import is_not_allowed
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import AdminClient
    from ottla.client.admin_security import QuotaEntity
    from ottla.client.results import Reassignment, TopicDescription
    from ottla.wire.acl_codes import Acl
    from ottla_operator.planning.export.topics import TopicSource
    from ottla_operator.planning.export.users import UserSource

TOPICS_PER_REQUEST = 250
"""A response has 30 configs of each topic: 250 topics are about half a megabyte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principals:
    """The principals of a cluster."""

    users: "Sequence[UserSource]"
    super_users: frozenset[str]
    """As far as brokers show them: those of Kafka do not."""
    other_quotas: "dict[QuotaEntity, dict[str, float]]" = field(default_factory=dict)
    """Limits of other entities than one user."""
    has_authorizer: bool = True


async def read_topics(admin: "AdminClient", described: "Sequence[TopicDescription]") -> "list[TopicSource]":
    """Return the topics ``described``; one that was deleted meanwhile is absent.

    Raises:
        KafkaError: a right is missing, which the message names.
    """
    from ottla_operator.planning.export.topics import TopicSource

    # Also without a topic: to a user without rights, brokers show none.
    with _needing("Describe on the cluster"):
        moving = await admin.list_partition_reassignments()
    found = []
    for first in range(0, len(described), TOPICS_PER_REQUEST):
        some = described[first : first + TOPICS_PER_REQUEST]
        with _needing("DescribeConfigs on every topic"):
            configs = await admin.describe_topic_configs([topic.name for topic in some])
        found += [
            TopicSource(name=topic.name, replicas=_replicas(topic, moving), config=configs[topic.name])
            for topic in some
            if topic.name in configs
        ]
    return found


def _replicas(topic: "TopicDescription", moving: "dict[TopicPartition, Reassignment]") -> tuple[int, ...]:
    """Return the number of replicas of each partition, after its reassignment if there is one."""
    moves = ((it, moving.get(TopicPartition(topic.name, it.partition))) for it in topic.partitions)
    return tuple(len(it.replicas if move is None else move.target) for it, move in moves)


async def read_principals(admin: "AdminClient") -> Principals:
    """Return all principals; raises as `read_topics`."""
    from ottla_operator.planning.export.users import UserSource

    acls: defaultdict[str, set[Acl]] = defaultdict(set)
    has_authorizer = True
    with _needing("Describe on the cluster"):
        try:
            for acl in await admin.describe_acls():
                acls[acl.principal].add(acl)
        except KafkaError as error:
            if error.code is not ErrorCode.SECURITY_DISABLED:
                raise
            has_authorizer = False
        scram = {f"User:{name}": kept for name, kept in (await admin.describe_scram()).items()}
    with _needing("DescribeConfigs on the cluster"):
        quotas = await admin.describe_client_quotas()
        super_users = await _super_users(admin)
    limits = {f"User:{entity.user}": found for entity, found in quotas.items() if _is_one_user(entity)}
    return Principals(
        users=[
            UserSource(
                principal=principal,
                acls=frozenset(acls.get(principal, ())),
                scram=scram.get(principal, {}),
                quotas=limits.get(principal, {}),
            )
            for principal in sorted({*acls, *scram, *limits})
        ],
        super_users=super_users,
        other_quotas={entity: found for entity, found in quotas.items() if not _is_one_user(entity)},
        has_authorizer=has_authorizer,
    )


def _is_one_user(entity: "QuotaEntity") -> bool:
    return bool(entity.user) and entity.client_id is None and entity.ip is None


async def _super_users(admin: "AdminClient") -> frozenset[str]:
    from ottla.config.resource_type import ConfigResourceType

    cluster = await admin.describe_cluster()
    for broker in cluster.brokers[:1]:
        for entry in await admin.describe_configs(ConfigResourceType.BROKER, str(broker.node_id)):
            if entry.name == "super.users":
                return frozenset(filter(None, map(str.strip, (entry.value or "").split(";"))))
    return frozenset()


@contextmanager
def _needing(right: str) -> Iterator[None]:
    """Name the ``right`` that a rejected request needs: half of a cluster is no export."""
    try:
        yield
    except KafkaError as error:
        if not is_not_allowed(error):
            raise
        message = f"nothing is exported, because this user lacks the right to {right}: {error.message or error}"
        raise KafkaError(error.code, message) from error
