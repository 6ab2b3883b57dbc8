"""`Fetching`: fetches the log as follower or observer, one fetch at a time, which waits at the leader for new records.

A voter syncs fetched records before the next fetch, since a fetch acknowledges that everything below its offset is on
disk. While the leader is unknown or does not respond, fetches go to the bootstrap servers and the voters, round-robin.

`ottla.raft.follower` describes a broken connection to the leader.

Source: KafkaRaftClient of Apache Kafka (handleFetchResponse, maybeSendFetchToBestNode, maybeSendFetchToAnyBootstrap).
"""

import logging
from typing import Any, Final

from ottla.errors import CorruptRecordError, ErrorCode, KafkaError, ProtocolError, StorageError
from ottla.peers.channel import PeerFailure, PeerResult
from ottla.raft.follower import FollowerState
from ottla.raft.replica import FETCH_CONNECTION, Replica
from ottla.raft.requests import Learned, begin_quorum_epoch_response, fetch_request, only_partition
from ottla.raft.snapshot_fetch import SnapshotFetch
from ottla.raft.unattached import UnattachedState
from ottla.types import Endpoint, OffsetAndEpoch
from ottla.wire.codec import Message
from ottla.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from ottla.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData
from ottla.wire.messages.fetch_snapshot import FetchSnapshotResponse, FetchSnapshotResponsePartitionSnapshot

BACKOFF_MS_MAX: Final = 500
LOST_LEADER_DELAY_MS: Final = 50
"""Followers of a leader that is gone stand for election within this time, each at a random moment."""
STAND_APART_PART: Final = 20
"""Followers of a silent leader stand for election within this part of the fetch timeout after its end."""

logger = logging.getLogger(__name__)

_FETCHING = (FollowerState, UnattachedState)


class Fetching:
    """See the module."""

    def __init__(self, replica: Replica, snapshot: SnapshotFetch[Any]) -> None:
        self._replica = replica
        self._snapshot = snapshot
        self._generation = 0
        self._is_waiting = False
        self._is_syncing = False
        self._failures = 0
        self._retry_at_ms = 0
        self._leader_losses = 0
        self._tries_others = False
        self._next_other = 0

    def on_transition(self) -> None:
        """Restart fetching: a response in flight belongs to the previous state."""
        self._generation += 1
        self._is_waiting = False
        self._failures = 0
        self._retry_at_ms = 0
        self._tries_others = False
        self._snapshot.abandon()

    def poll(self, now_ms: int) -> None:
        """Give up a leader whose timeout has passed; send the next fetch when it is due."""
        replica = self._replica
        state = replica.quorum.state
        assert isinstance(state, _FETCHING), f"{state} does not fetch"
        if replica.quorum.is_voter and now_ms >= _gives_up_at_ms(state):
            replica.become_prospective()
            return
        if self._is_busy or now_ms < self._retry_at_ms:
            return
        if replica.quorum.is_voter and replica.log.log.recovery_point < replica.log.end_offset:
            self._sync()
            return
        endpoint = self._fetch_endpoint(state)
        if endpoint is None:
            self._retry_at_ms = now_ms + BACKOFF_MS_MAX
        elif self._snapshot.is_active and not self._tries_others:
            self._send(endpoint, self._snapshot.request())
        else:
            self._send(endpoint, self._fetch_request())

    def deadline_ms(self) -> int | None:
        """Return when `poll` is next due."""
        state = self._replica.quorum.state
        assert isinstance(state, _FETCHING), f"{state} does not fetch"
        deadlines = []
        if self._replica.quorum.is_voter:
            deadlines.append(_gives_up_at_ms(state))
        if not self._is_busy:
            deadlines.append(self._retry_at_ms)
        return min(deadlines, default=None)

    @property
    def _is_busy(self) -> bool:
        return self._is_waiting or self._is_syncing or self._snapshot.is_complete

    def _sync(self) -> None:
        self._is_syncing = True
        self._replica.sync(self._on_synced)

    def _on_synced(self) -> None:
        self._is_syncing = False

    # --- announcements of the leader

    def handle_begin_quorum_epoch(self, request: BeginQuorumEpochRequest) -> BeginQuorumEpochResponse:
        """Learn the leader of an epoch from its own announcement, and fetch from it."""
        replica = self._replica
        announced = replica.check_request(request.cluster_id, only_partition(request.topics))
        if isinstance(announced, ErrorCode):
            return BeginQuorumEpochResponse(error_code=announced)
        error = replica.learn_from_leader(announced.leader_id, announced.leader_epoch, request.leader_endpoints)
        if error is None and not replica.is_meant(request.voter_id, announced.voter_directory_id):
            error = ErrorCode.INVALID_VOTER_KEY
        return begin_quorum_epoch_response(error or 0, replica.known())

    # --- requests

    def _fetch_endpoint(self, state: FollowerState | UnattachedState) -> Endpoint | None:
        if isinstance(state, FollowerState) and not self._tries_others:
            return state.leader_endpoint
        others = self._replica.bootstrap_endpoints()
        if not others:
            return state.leader_endpoint if isinstance(state, FollowerState) else None
        if self._next_other == 0:
            self._next_other = 1 + self._replica.quorum.random_ms(len(others))
        self._next_other += 1
        return others[self._next_other % len(others)]

    def _fetch_request(self) -> FetchRequest:
        replica = self._replica
        return fetch_request(
            cluster_id=replica.cluster_id,
            replica=replica.local,
            epoch=replica.quorum.epoch,
            log_end=replica.log.end,
            log_start_offset=replica.log.log.log_start_offset,
            high_watermark=replica.high_watermark,
            size_bytes_max=replica.config.fetch_size_bytes_max,
        )

    def _send(self, endpoint: Endpoint, request: Message) -> None:
        self._is_waiting = True
        generation = self._generation

        def on_response(response: PeerResult) -> None:
            if generation == self._generation:
                self._is_waiting = False
                self._on_response(endpoint, response)

        self._replica.send(endpoint, request, on_response, connection=FETCH_CONNECTION)

    # --- responses

    def _on_response(self, endpoint: Endpoint, response: PeerResult) -> None:
        replica = self._replica
        state = replica.quorum.state
        is_from_leader = isinstance(state, FollowerState) and endpoint == state.leader_endpoint
        if isinstance(response, PeerFailure):
            self._on_failure(response, is_from_leader=is_from_leader)
            return
        assert isinstance(response, FetchResponse | FetchSnapshotResponse), f"{response} is no response to a fetch"
        partition = _partition_of(response)
        if response.error_code or partition is None:
            replica.log_rejection(ErrorCode(response.error_code or ErrorCode.UNKNOWN_SERVER_ERROR), endpoint, "a fetch")
            self._pause()
            return
        leader = partition.current_leader
        learned = Learned.of(leader.leader_id, leader.leader_epoch, response.node_endpoints)
        if learned.epoch >= state.epoch:
            replica.learn(learned)
        if replica.quorum.state is not state:
            return
        if isinstance(partition, FetchSnapshotResponsePartitionSnapshot):
            self._handle_piece(partition)
        elif partition.error_code:
            self._on_error(ErrorCode(partition.error_code), endpoint, is_from_leader=is_from_leader)
        elif isinstance(state, FollowerState) and learned[:2] == replica.leader_and_epoch:
            self._handle_partition(state, partition)
        else:
            self._pause()

    def _on_failure(self, failure: PeerFailure, *, is_from_leader: bool) -> None:
        is_first = self._failures == 0
        self._pause()
        if not is_from_leader:
            self._tries_others = not self._tries_others
        elif failure is PeerFailure.DISCONNECTED and is_first:
            # Reconnect at once: connection refused means that the process has ended, else only the connection broke.
            self._retry_at_ms = 0
        elif failure is PeerFailure.CONNECTION_REFUSED and self._replica.quorum.is_voter:
            self._lose_leader()
        else:
            self._tries_others = True

    def _on_error(self, error: ErrorCode, endpoint: Endpoint, *, is_from_leader: bool) -> None:
        self._pause()
        if is_from_leader and error is ErrorCode.NOT_LEADER_OR_FOLLOWER and self._replica.quorum.is_voter:
            # It led this epoch and has resigned, and no other replica can lead the same epoch.
            self._lose_leader()
        elif error not in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
            self._replica.log_rejection(error, endpoint, "a fetch")
        self._tries_others = not self._tries_others if not is_from_leader else True

    def _lose_leader(self) -> None:
        state = self._replica.quorum.state
        assert isinstance(state, FollowerState), "only a follower has a leader to lose"
        longest_ms = min(
            LOST_LEADER_DELAY_MS << min(self._leader_losses, 10), self._replica.config.election_backoff_ms_max
        )
        self._leader_losses += 1
        state.lose_leader(self._replica.now_ms + self._replica.quorum.random_ms(longest_ms))

    def _pause(self) -> None:
        backoff_ms = min(self._replica.config.retry_backoff_ms << min(self._failures, 10), BACKOFF_MS_MAX)
        self._failures += 1
        self._retry_at_ms = self._replica.now_ms + backoff_ms

    # --- data from the leader

    def _handle_piece(self, partition: FetchSnapshotResponsePartitionSnapshot) -> None:
        state = self._replica.quorum.state
        if not self._snapshot.append_piece(partition):
            self._pause()
        elif isinstance(state, FollowerState):
            self._on_success(state)

    def _handle_partition(self, state: FollowerState, partition: PartitionData) -> None:
        if partition.diverging_epoch.epoch >= 0:
            self._truncate(OffsetAndEpoch(partition.diverging_epoch.end_offset, partition.diverging_epoch.epoch))
        elif partition.snapshot_id.epoch >= 0:
            self._snapshot.start(OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch))
        else:
            if partition.records:
                self._append(bytes(partition.records), state)  # type: ignore[arg-type]
            # Only now is it certain that the log matches the leader's up to its end.
            if partition.high_watermark >= 0:
                self._replica.raise_high_watermark(min(partition.high_watermark, self._replica.log.end_offset))
        self._on_success(state)

    def _on_success(self, state: FollowerState) -> None:
        self._failures = 0
        self._leader_losses = 0
        self._tries_others = False
        # A commit releases the fetches of all followers at once: without the addition all would stand for election in
        # the same millisecond after a leader that hangs, and lose.
        apart_ms = self._replica.quorum.random_ms(self._replica.config.fetch_timeout_ms // STAND_APART_PART)
        now_ms = self._replica.now_ms
        self._replica.quorum.responded_ms = now_ms
        state.on_fetched(now_ms + self._replica.config.fetch_timeout_ms + apart_ms)

    def _truncate(self, leader_end: OffsetAndEpoch) -> None:
        replica = self._replica
        before = replica.log.end_offset
        high_watermark = replica.high_watermark or 0
        offset = replica.log.end_in_common(leader_end)
        if min(offset, leader_end.offset) < high_watermark:
            raise StorageError(
                f"the leader of the metadata quorum asks to truncate the log to {leader_end}, below the committed end "
                f"{high_watermark}: the leader has lost records; do not restart it before its disk has been checked"
            )
        end_offset = replica.log.truncate_to(offset)
        replica.voters.truncate(end_offset)
        logger.info(
            "truncated the metadata log from offset %d to %d, the divergence point with the leader", before, end_offset
        )

    def _append(self, records: bytes, state: FollowerState) -> None:
        replica = self._replica
        try:
            batches = replica.log.append_as_follower(records, state.epoch)
            replica.voters.read(batches)
        except StorageError:
            raise
        except (KafkaError, CorruptRecordError, ProtocolError) as error:
            logger.warning("records from the leader of the metadata quorum cannot be used: %s", error)
            self._pause()


def _gives_up_at_ms(state: FollowerState | UnattachedState) -> int:
    return state.fetch_deadline_ms if isinstance(state, FollowerState) else state.election_deadline_ms


def _partition_of(
    response: FetchResponse | FetchSnapshotResponse,
) -> PartitionData | FetchSnapshotResponsePartitionSnapshot | None:
    if isinstance(response, FetchResponse):
        partitions = response.responses[0].partitions if len(response.responses) == 1 else []
        return partitions[0] if len(partitions) == 1 else None
    pieces = response.topics[0].partitions if len(response.topics) == 1 else []
    return pieces[0] if len(pieces) == 1 else None
