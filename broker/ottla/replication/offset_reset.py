"""`OffsetReset`: what a follower does when its fetch offset is out of the leader's range.

It requests the ends of the leader's log. If that ends below this replica's, this replica truncates its log to the same
end. If it starts above, the leader no longer has the records that this replica needs next: this replica restarts at the
leader's log start with an empty log.

Source: AbstractFetcherThread.fetchOffsetAndTruncate of Apache Kafka 4.3.
"""

import logging
from collections.abc import Callable
from typing import Final

from ottla.errors import ErrorCode
from ottla.peers.channel import PeerResult
from ottla.purgatory import Delayed
from ottla.replication.followed_partitions import Followed, FollowedPartitions
from ottla.replication.partition import Partition
from ottla.types import NodeId, Offset
from ottla.wire.codec import Message
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

logger = logging.getLogger(__name__)

LATEST: Final = -1
EARLIEST: Final = -2


class OffsetReset:
    """See the module.

    Args of the constructor:
        send: sends a request to the leader; None while its address is unknown.
        retry_ms: returns how long the partition is delayed when the leader does not respond.
        truncate: truncates a partition's log, for a reason that it logs.
        fail: called with an exception of a partition.
        progressed: called with a partition that has restarted at the leader's log start.
    """

    def __init__(
        self,
        *,
        node_id: NodeId,
        leader: NodeId,
        partitions: FollowedPartitions,
        send: Callable[[Message], Delayed[PeerResult] | None],
        retry_ms: Callable[[], int],
        truncate: Callable[[Followed, Offset, str], None],
        fail: Callable[[Followed, Exception], None],
        progressed: Callable[[Partition], object],
    ) -> None:
        self._node_id = node_id
        self._leader = leader
        self._partitions = partitions
        self._send = send
        self._retry_ms = retry_ms
        self._truncate = truncate
        self._fail = fail
        self._progressed = progressed

    def start(self, followed: Followed) -> None:
        """Find the offset from which the partition can be fetched again."""
        self._request_offset(followed, LATEST, self._on_latest_offset)

    def _request_offset(self, followed: Followed, timestamp: int, use: Callable[[Followed, Offset], None]) -> None:
        """Request an end of the leader's log; until its response, the partition is not fetched."""
        self._partitions.delay(followed, self._retry_ms())
        topic, index = followed.partition.topic_partition
        wanted = ListOffsetsPartition(
            partition_index=index, current_leader_epoch=followed.leader_epoch, timestamp=timestamp
        )
        request = ListOffsetsRequest(
            replica_id=self._node_id, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])]
        )

        def on_response(response: PeerResult) -> None:
            found = _only_partition(response)
            if not self._partitions.is_current(followed):
                return
            if found is None or found.error_code != ErrorCode.NONE:
                return  # it is delayed: the next fetch reports the error again
            try:
                use(followed, found.offset)
            except Exception as error:
                self._fail(followed, error)

        pending = self._send(request)
        if pending is not None:
            pending.on_complete(on_response)

    def _on_latest_offset(self, followed: Followed, leader_end_offset: Offset) -> None:
        """Truncate to the log end of a leader that is behind; else request its log start, which may be above ours."""
        if leader_end_offset < followed.partition.log.log_end_offset:
            reason = f"the log of node {self._leader}, which leads epoch {followed.leader_epoch}, ends there"
            self._truncate(followed, leader_end_offset, reason)
            self._partitions.resume(followed)
        else:
            self._request_offset(followed, EARLIEST, self._on_earliest_offset)

    def _on_earliest_offset(self, followed: Followed, leader_start_offset: Offset) -> None:
        log = followed.partition.log
        if leader_start_offset > log.log_end_offset:
            logger.info(
                "%s: restarting at offset %d, where the log of node %d starts; this replica ended at %d",
                followed.partition.topic_partition,
                leader_start_offset,
                self._leader,
                log.log_end_offset,
            )
            log.truncate_fully_and_start_at(leader_start_offset)
            self._progressed(followed.partition)
        self._partitions.resume(followed)


def _only_partition(response: PeerResult) -> ListOffsetsPartitionResponse | None:
    if isinstance(response, ListOffsetsResponse) and response.topics and response.topics[0].partitions:
        return response.topics[0].partitions[0]
    return None
