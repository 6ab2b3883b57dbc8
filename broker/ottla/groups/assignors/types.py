"""Input, output and protocol of server-side assignors.

Racks are no part of the input: none of the assignors of Kafka 4.3.1 considers those of members or partitions.

Source: package org.apache.kafka.coordinator.group.api.assignor of Apache Kafka 4.3.1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol, TypeAlias

from ottla.purgatory.steps import Steps
from ottla.types import Uuid

MemberAssignment: TypeAlias = Mapping[Uuid, frozenset[int]]
"""Partitions of one member by topic id; no topic has an empty set. Never changed once it is in use."""

NO_ASSIGNMENT: Final[MemberAssignment] = {}

Assignment: TypeAlias = dict[str, MemberAssignment]
"""The target assignment of a group by member id."""


class SubscriptionType(Enum):
    """Whether all members of a group subscribe to the same topics; decided by names, also of topics that are missing.

    Source: ModernGroup.subscriptionType.
    """

    HOMOGENEOUS = "homogeneous"
    HETEROGENEOUS = "heterogeneous"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSubscription:
    """One member as the assignor sees it.

    Attributes:
        member_id: unique in the group.
        instance_id: ``group.instance.id`` of a static member.
        topic_ids: the subscribed topics that exist, by name and by regular expression together.
        assigned: the member's part of the current target assignment, empty for a new member. For a static member that
            has rejoined with a new member id it is the part of its previous id.
    """

    member_id: str
    instance_id: str | None
    topic_ids: frozenset[Uuid]
    assigned: MemberAssignment


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """All that an assignment is computed from; nothing in it may change until the assignor has returned.

    Attributes:
        members: in any order; Kafka orders them by hash, and the given order counts among equal hashes only.
        subscription_type: selects the algorithm.
        partition_counts: number of partitions of every topic that a member subscribes to, at least.
        assignable: the partitions that may be assigned; None for all. Only `simple` considers it.
    """

    members: Sequence[MemberSubscription]
    subscription_type: SubscriptionType
    partition_counts: Mapping[Uuid, int]
    assignable: Mapping[Uuid, frozenset[int]] | None = None


class Assignor(Protocol):
    """Computes target assignments."""

    @property
    def name(self) -> str:
        """Return the name in ``group.consumer.assignors`` and in a member's ``group.remote.assignor``."""

    def assign(self, spec: GroupSpec) -> Steps[Assignment]:
        """Return the new target assignment of every member, computed in slices as `Steps` are.

        A member whose assignment does not change keeps the same object, ``MemberSubscription.assigned``. For the same
        ``spec`` the result is always the same, that of Kafka 4.3.1.

        Raises:
            PartitionAssignorError: a subscribed topic has no partition count.
        """


class PartitionAssignorError(Exception):
    """The input is contradictory; the group keeps its target assignment.

    Source: PartitionAssignorException.
    """
