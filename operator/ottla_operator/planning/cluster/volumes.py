"""Volumes of nodes that have left: when they are deleted, if the spec says so. Pure."""

from ottla_operator.model.nodes import DesiredCluster, node_of_name
from ottla_operator.model.storage import DELETE
from ottla_operator.planning.steps.cluster import RemoveVolumes
from ottla_operator.ports.cluster_view import ClusterView
from ottla_operator.ports.volume_claims import ObservedClaim


def next_removal(
    desired: DesiredCluster, claims: tuple[ObservedClaim, ...], running: frozenset[str], view: ClusterView | None
) -> RemoveVolumes | None:
    """Return the volumes of nodes that have left for good; None if there are none to delete.

    A node has left when the spec does not have it, its host does not run it (``running`` are the names of those that it
    runs), and brokers know it neither as a broker, nor as a replica of any partition, nor as a voter.
    """
    if view is None or not claims:
        return None
    # The quorum's leader lists former observers for five minutes: an entry there is no sign of life.
    known = {*view.brokers, *(member.node_id for member in view.voters)}
    known |= {node for partition in view.partitions for node in partition.replicas}
    wanted = {node.name for node in desired.nodes} | running

    def has_left(claim: ObservedClaim) -> bool:
        found = node_of_name(desired.cluster, claim.node)
        if found is None or claim.node in wanted:
            return False
        pool, ordinal = found
        is_surplus = ordinal >= pool.nodes and pool.storage.on_scale_down == DELETE
        return is_surplus and pool.first_node_id + ordinal not in known

    gone = tuple(claim for claim in claims if has_left(claim))
    return RemoveVolumes(gone) if gone else None
