"""Validation of a partition's replicas that a client names.

Source: ReplicationControlManager.validateManualPartitionAssignment of Apache Kafka 4.3, whose error texts these are.
"""

from collections.abc import Sequence

from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.cluster import ClusterImage
from ottla.types import NodeId


def check_assignment(cluster: ClusterImage, broker_ids: Sequence[NodeId], replication_factor: int | None) -> None:
    """Reject an empty list, duplicates, unregistered brokers, or another number than ``replication_factor``.

    Raises:
        KafkaError: INVALID_REPLICA_ASSIGNMENT.
    """
    if not broker_ids:
        raise invalid_assignment("The manual partition assignment includes an empty replica list.")
    previous = None
    for broker_id in sorted(broker_ids):
        if broker_id not in cluster.brokers:
            raise invalid_assignment(
                f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
            )
        if broker_id == previous:
            raise invalid_assignment(f"The manual partition assignment includes the broker {broker_id} more than once.")
        previous = broker_id
    if replication_factor is not None and len(broker_ids) != replication_factor:
        raise invalid_assignment(
            f"The manual partition assignment includes a partition with {len(broker_ids)} replica(s), but this is "
            f"not consistent with previous partitions, which have {replication_factor} replica(s)."
        )


def invalid_assignment(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
