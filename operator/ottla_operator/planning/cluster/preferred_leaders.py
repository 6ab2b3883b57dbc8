"""Elections of preferred leaders. Pure."""

from ottla_operator.model.nodes import DesiredCluster
from ottla_operator.planning.steps.cluster import ElectPreferredLeaders
from ottla_operator.ports.cluster_view import ClusterView

_REBALANCE = "auto.leader.rebalance.enable"


def next_election(desired: DesiredCluster, view: ClusterView) -> ElectPreferredLeaders | None:
    """Return the election of preferred leaders that are in sync again; None while any partition is being reassigned."""
    if desired.cluster.config.get(_REBALANCE) == "false" or any(partition.is_moving for partition in view.partitions):
        return None
    live = view.live_brokers
    away = tuple(
        partition.partition
        for partition in view.partitions
        if partition.replicas
        and partition.leader not in (-1, partition.replicas[0])
        and partition.replicas[0] in partition.isr
        and partition.replicas[0] in live
    )
    return ElectPreferredLeaders(away) if away else None
