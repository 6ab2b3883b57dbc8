"""Selection of the replica that a consumer reads from: the leader, or a follower in its own rack.

Source: RackAwareReplicaSelector and ReplicaManager.findPreferredReadReplica of Apache Kafka 4.3; KIP-392.
"""

from ottla.replication.partition import Partition
from ottla.types import NodeId, Offset


def preferred_read_replica(partition: Partition, *, rack: str, fetch_offset: Offset, now_ms: int) -> NodeId | None:
    """Return the in-sync follower that a consumer in ``rack`` should read from; None means the leader.

    It must have ``fetch_offset``. Of several in the rack, the one with the largest log end offset is selected, then the
    one that caught up last, then the one with the largest id.
    """
    brokers = partition.isr.brokers
    leader = brokers.find(partition.node_id)
    if not rack or leader is None or leader.rack == rack:
        return None
    candidates = []
    for replica in partition.isr.remote.values():
        broker = brokers.find(replica.broker_id)
        if (
            broker is not None
            and not broker.is_fenced
            and broker.rack == rack
            and replica.broker_id in partition.isr.in_sync
            and replica.log_start_offset <= fetch_offset <= replica.log_end_offset
        ):
            behind_ms = now_ms - replica.last_caught_up_ms
            candidates.append((replica.log_end_offset, -behind_ms, replica.broker_id))
    return max(candidates)[2] if candidates else None
