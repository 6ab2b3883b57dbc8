"""`UniformAssignor`: numbers of partitions per member that differ by at most one, with as few moves as possible.

The default of Kafka's groups. Members with equal subscriptions have an algorithm of their own, which is exact and
cheap; `uniform_heterogeneous` is for all others.

Source: UniformAssignor of Apache Kafka 4.3.1.
"""

from typing import Final

from ottla.groups.assignors.types import Assignment, GroupSpec, SubscriptionType
from ottla.groups.assignors.uniform_heterogeneous import assign_heterogeneous
from ottla.groups.assignors.uniform_homogeneous import assign_homogeneous
from ottla.java_hashes import buckets_of_grown, string_hash
from ottla.purgatory.hash_order import in_hash_order
from ottla.purgatory.steps import Steps


class UniformAssignor:
    """See the module; it has no state."""

    name: Final = "uniform"

    def assign(self, spec: GroupSpec) -> Steps[Assignment]:
        """See `Assignor.assign`."""
        members = yield from in_hash_order(
            spec.members, lambda member: string_hash(member.member_id), buckets_of_grown(len(spec.members))
        )
        if not members:
            return {}
        if spec.subscription_type is SubscriptionType.HOMOGENEOUS:
            return (yield from assign_homogeneous(members, spec.partition_counts))
        return (yield from assign_heterogeneous(members, spec.partition_counts))
