"""Replication factor of Kafka's internal topics, which brokers create with as many replicas as there are brokers. Pure.

A cluster that grows from one node to three would keep one replica of its groups' offsets for ever. The factor is only
raised: an administrator may want more replicas than this.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final

from ottla.client.assignment import Load, with_factor
from ottla.types import CONSUMER_OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from ottla_operator.model.manifest import Cluster
from ottla_operator.ports.cluster_view import ClusterView, PartitionView

_FACTOR_KEYS: Final[Mapping[str, str]] = {
    CONSUMER_OFFSETS_TOPIC: "offsets.topic.replication.factor",
    TRANSACTION_STATE_TOPIC: "transaction.state.log.replication.factor",
    SHARE_GROUP_STATE_TOPIC: "share.coordinator.state.topic.replication.factor",
}
_FACTOR: Final = 3
"""Kafka's default of these configs."""


def lacking_replicas(cluster: Cluster, view: ClusterView, brokers: Collection[int]) -> list[PartitionView]:
    """Return the partitions that have fewer replicas than ``brokers`` can hold and ``spec.config`` asks for."""
    return [it for it in view.partitions if len(it.target) < _wanted(cluster, it.partition.topic, brokers)]


def added_replicas(
    cluster: Cluster, view: ClusterView, brokers: Collection[int], capacity: int
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the next partitions to reassign, with their replicas; ``capacity`` is how many may begin to move.

    Their leaders are spread, else the first broker of the cluster would coordinate all groups of the larger one.
    """
    lacking = [it for it in lacking_replicas(cluster, view, brokers) if not it.is_moving]
    if not lacking or capacity <= 0:
        return {}
    load = Load(brokers, (it.target for it in view.partitions), view.racks)
    leaders = Counter(it.target[0] for it in view.partitions)
    targets = {}
    for it in lacking[:capacity]:
        target = with_factor(it.target, it.isr, _wanted(cluster, it.partition.topic, brokers), load)
        if target is not None:
            leaders[it.target[0]] -= 1
            leader = min(target, key=leaders.__getitem__)
            leaders[leader] += 1
            targets[it.partition] = (leader, *(node for node in target if node != leader))
    return targets


def _wanted(cluster: Cluster, topic: str, brokers: Collection[int]) -> int:
    key = _FACTOR_KEYS.get(topic)
    if key is None:
        return 0
    value = cluster.config.get(key, "")
    # Brokers reject anything else, and say so.
    return min(int(value) if value.isdecimal() else _FACTOR, len(brokers))
