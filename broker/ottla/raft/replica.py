"""`Replica`: the state that the parts of a `RaftClient` share: identity, log, voters, quorum state.

The transitions go through here, so that the side effects of each are in one place.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from ottla.errors import ErrorCode, KafkaError, ShortageError, StorageError
from ottla.log_lines import LineLimit
from ottla.peers.channel import PeerChannel, PeerFailure, PeerResult
from ottla.peers.denials import PeerDenials
from ottla.ports import Clock, Disk
from ottla.quoting import quoted
from ottla.raft.config import RaftConfig
from ottla.raft.leader import LeaderState
from ottla.raft.metadata_log import MetadataLog
from ottla.raft.quorum_state import EpochState, QuorumState
from ottla.raft.records import Batch, LeaderAndEpoch, ReplicaKey
from ottla.raft.requests import EPOCH_MAX, NO_NODE, Learned, ListenerEndpoint
from ottla.raft.voter_history import VoterHistory
from ottla.types import ZERO_UUID, Endpoint, LeaderEpoch, NodeId, Offset, Uuid
from ottla.wire.codec import Message

PartitionT = TypeVar("PartitionT")

logger = logging.getLogger(__name__)

_FOREIGN_LINES_INTERVAL_MS: Final = 10_000

FETCH_CONNECTION = "raft-fetch"
REQUEST_CONNECTION = "raft"
"""Fetches wait at the leader, so they have a connection of their own: other requests must not wait behind them."""


def other_cluster(cluster_id: str) -> str:
    """Return the instruction for a node whose storage has ``cluster_id``, while its controllers have another."""
    return (
        f"the controllers belong to another cluster than this node's storage, which has the cluster id {cluster_id}: "
        "point controller.quorum.bootstrap.servers (or controller.quorum.voters) at its own cluster, or format empty "
        "directories with the other's id"
    )


class Replica:
    """See the module. ``log`` and ``quorum`` are set from `RaftClient.initialize` on.

    Attributes:
        failure: the error that stopped this replica; None while it works.
        high_watermark: the highest that this process knows; never goes back, also across leaders.
        wake: to be called after any change: it runs the work that is due now.
        keep_appended: to be called with each batch that this replica appended as leader.
    """

    log: MetadataLog
    quorum: QuorumState

    def __init__(
        self,
        *,
        disk: Disk,
        clock: Clock,
        channel: PeerChannel,
        local: ReplicaKey,
        cluster_id: str,
        config: RaftConfig,
        voters: VoterHistory,
        listeners: Mapping[str, Endpoint],
        listener_name: str,
        bootstrap_servers: Sequence[Endpoint],
        wake: Callable[[], None],
        on_transition: Callable[[EpochState], None],
        keep_appended: Callable[[Batch[Any]], None],
        on_failure: Callable[[KafkaError], None] | None,
        on_other_cluster: Callable[[], None] | None,
    ) -> None:
        self.disk = disk
        self.clock = clock
        self._channel = channel
        self.local = local
        self.cluster_id = cluster_id
        self.config = config
        self.voters = voters
        self.listeners = dict(listeners)
        self.listener_name = listener_name
        self._bootstrap_servers = tuple(bootstrap_servers)
        self.wake = wake
        self._on_transition = on_transition
        self.keep_appended = keep_appended
        self._on_failure = on_failure
        self._on_other_cluster = on_other_cluster
        self.failure: KafkaError | None = None
        self.is_closed = False
        self.high_watermark: Offset | None = None
        self._logged_rejections: set[tuple[object, ErrorCode]] = set()
        self._foreign_peers: set[object] = set()
        self._denials = PeerDenials(clock, config.own_principal)
        self._foreign_requests = 0
        self._foreign_lines = LineLimit(clock, interval_ms=_FOREIGN_LINES_INTERVAL_MS)

    @property
    def now_ms(self) -> int:
        return self.clock.monotonic_ms()

    def raise_high_watermark(self, offset: Offset) -> bool:
        """Record that everything below ``offset`` is committed; return whether that is new."""
        if self.high_watermark is not None and offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        self.log.log.update_high_watermark(offset)
        return True

    def sync(self, on_synced: Callable[[], None]) -> None:
        """Sync the whole log off the loop; a failure ends this replica.

        Raises:
            StorageError: the disk failed at once.
        """

        def done(error: StorageError | None) -> None:
            if error is None:
                self.handle(on_synced)

        self.log.log.flush_later(done)

    def fail(self, error: KafkaError) -> None:
        """Stop for good: a metadata log that failed once is never trusted again.

        A shortage of descriptors is fatal too, once the disk's reserve is used up: no step may be skipped.
        """
        if self.failure is not None:
            return
        self.failure = error
        logger.critical("the metadata log failed, this node cannot continue: %s", error)
        if self._on_failure is not None:
            self._on_failure(error)

    def handle(self, event: Callable[[], None]) -> None:
        """Apply an external event, then run the work that follows from it."""
        if self.failure is not None or self.is_closed:
            return
        try:
            event()
        except (StorageError, ShortageError) as error:
            self.fail(error)
        else:
            self.wake()

    # --- peers

    def send(
        self,
        endpoint: Endpoint,
        request: Message,
        on_response: Callable[[PeerResult], None],
        *,
        connection: str = REQUEST_CONNECTION,
    ) -> None:
        """Send ``request`` to the node at ``endpoint``; follow-up work runs when ``on_response`` has returned."""
        timeout_ms = self.config.request_timeout_ms
        pending = self._channel.send(endpoint, self.listener_name, request, timeout_ms=timeout_ms, purpose=connection)

        def complete(response: PeerResult) -> None:
            if response is PeerFailure.UNSUPPORTED_VERSION:
                self.log_rejection(ErrorCode.UNSUPPORTED_VERSION, endpoint, type(request).__name__)
            on_response(response)

        pending.on_complete(lambda response: self.handle(lambda: complete(response)))

    def endpoint_of(self, voter_id: NodeId) -> Endpoint | None:
        return self.voters.voters.endpoint_of(voter_id, self.listener_name)

    def bootstrap_endpoints(self) -> list[Endpoint]:
        """Return the addresses that may know the leader: the configured servers and the other voters."""
        voters = (self.endpoint_of(voter) for voter in self.voters.voters.node_ids if voter != self.local.node_id)
        mine = self.listeners.get(self.listener_name)
        endpoints = (*self._bootstrap_servers, *(endpoint for endpoint in voters if endpoint is not None))
        return [endpoint for endpoint in dict.fromkeys(endpoints) if endpoint != mine]

    def knows_cluster(self, cluster_id: str | None) -> bool:
        """Whether a request that names ``cluster_id`` is from this cluster; one that names none is accepted."""
        if cluster_id is None or cluster_id == self.cluster_id:
            return True
        self._foreign_requests += 1
        if self._foreign_lines.take_permit():
            logger.warning(
                "rejected a request of a node of cluster %s: this is cluster %s; a node of that one has this node's "
                "address in its controller.quorum.voters or controller.quorum.bootstrap.servers (%d rejected so far)",
                quoted(cluster_id),
                self.cluster_id,
                self._foreign_requests,
            )
        return False

    def known(self) -> Learned:
        """Return what this replica knows of the quorum, for its responses."""
        leader_id, epoch = self.quorum.leader_and_epoch
        return Learned(leader_id, epoch, self.leader_endpoint)

    @property
    def leader_and_epoch(self) -> LeaderAndEpoch:
        return self.quorum.leader_and_epoch

    @property
    def leader_endpoint(self) -> Endpoint | None:
        if self.quorum.leader is not None:
            return self.listeners.get(self.listener_name)
        return self.quorum.leader_endpoint

    def is_meant(self, voter_id: NodeId, directory_id: Uuid) -> bool:
        """Whether a request to this voter is for this replica, and not for a former one with the same id."""
        return voter_id in (NO_NODE, self.local.node_id) and directory_id in (ZERO_UUID, self.local.directory_id)

    def log_rejection(self, error: ErrorCode, peer: object, what: str) -> None:
        """Log, once for each ``peer`` and ``error``, that the peer rejected a request, and how to fix it.

        A denial is logged repeatedly, at a bounded rate: it ends only when a configuration is changed.
        """
        if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            self._denials.note(peer, what)
            return
        if error is ErrorCode.UNKNOWN_SERVER_ERROR and self.high_watermark is None:
            self._denials.suspect(peer, what)
        if (peer, error) in self._logged_rejections:
            return
        self._logged_rejections.add((peer, error))
        if error is ErrorCode.INCONSISTENT_CLUSTER_ID:
            self._foreign_peers.add(peer)
            if self._on_other_cluster is not None and self._is_in_foreign_cluster():
                self._on_other_cluster()
                return
            logger.error(
                "node %s of the metadata quorum rejects %s: it belongs to another cluster than this node, whose "
                "cluster.id is %s; correct controller.quorum.voters or controller.quorum.bootstrap.servers, or format "
                "this node for that cluster",
                peer,
                what,
                self.cluster_id,
            )
        elif error is ErrorCode.INVALID_VOTER_KEY:
            logger.error(
                "node %s of the metadata quorum rejects %s: its metadata directory is not the one that the quorum "
                "knows, so it was formatted again; remove the voter with the old directory id, then add this one",
                peer,
                what,
            )
        else:
            logger.info("node %s of the metadata quorum rejects %s: %s", peer, what, error.name)

    def _is_in_foreign_cluster(self) -> bool:
        """Whether this replica never reached its own cluster, and most of its peers belong to another.

        One of three peers may be the one with the wrong id: a replica with enough voters left to elect it continues.
        """
        if self.high_watermark is not None:
            return False
        if self.quorum.is_voter:
            peers: set[object] = {voter for voter in self.voters.voters.node_ids if voter != self.local.node_id}
        else:
            peers = set(self.bootstrap_endpoints())
        return 2 * len(self._foreign_peers & peers) > len(peers)

    # --- validation of requests

    def check_request(self, cluster_id: str | None, partition: PartitionT | None) -> PartitionT | ErrorCode:
        """Return the request's data of the quorum's partition, or the error with which it is rejected as a whole.

        ``partition`` is None when the request is about any other partition as well.
        """
        if not self.knows_cluster(cluster_id):
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        return ErrorCode.INVALID_REQUEST if partition is None else partition

    def error_for_voter(self, epoch: LeaderEpoch, sender_id: NodeId) -> ErrorCode | None:
        """Return the error with which a request of another voter in ``epoch`` is rejected; None when it is valid."""
        if epoch < self.quorum.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.INVALID_REQUEST if sender_id < 0 or epoch > EPOCH_MAX else None

    def error_for_leader(self, epoch: LeaderEpoch) -> ErrorCode | None:
        """Return the error that rejects a request to the leader of ``epoch``; None when this replica leads it."""
        if epoch < self.quorum.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.quorum.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return None if self.quorum.leader is not None else ErrorCode.NOT_LEADER_OR_FOLLOWER

    # --- transitions

    def learn_from_leader(
        self, leader_id: NodeId, epoch: LeaderEpoch, endpoints: Iterable[ListenerEndpoint]
    ) -> ErrorCode | None:
        """Apply a leader's announcement of itself; return the error that rejects it, None when it is valid."""
        error = self.error_for_voter(epoch, leader_id)
        if error is None:
            listeners = {each.name: Endpoint(each.host, each.port) for each in endpoints}
            self.learn(Learned(leader_id, epoch, listeners.get(self.listener_name)))
        return error

    def learn(self, learned: Learned) -> None:
        """Apply another replica's view of the quorum: enter a newer epoch, and follow its leader if it is named."""
        quorum = self.quorum
        leader_id, epoch, endpoint = learned
        if leader_id == self.local.node_id:
            # Only this replica knows whether it leads; it has been in this epoch already.
            return
        if epoch > EPOCH_MAX:
            return
        if leader_id is not None and endpoint is None:
            endpoint = self.endpoint_of(leader_id)
        if epoch > quorum.epoch:
            if leader_id is None or endpoint is None:
                self.become_unattached(epoch, leader_id)
            else:
                self.follow(epoch, leader_id, endpoint)
        elif epoch == quorum.epoch and leader_id is not None and endpoint is not None:
            is_new = quorum.leader_id is None or quorum.leader_endpoint is None
            if is_new and quorum.leader is None:
                self.follow(epoch, leader_id, endpoint)

    def become_unattached(
        self, epoch: LeaderEpoch, leader_id: NodeId | None, *, election_deadline_ms: int | None = None
    ) -> None:
        before = self.quorum.state
        self.quorum.to_unattached(epoch, leader_id, self.now_ms, election_deadline_ms=election_deadline_ms)
        self._on_state_changed(before)

    def follow(self, epoch: LeaderEpoch, leader_id: NodeId, endpoint: Endpoint) -> None:
        before = self.quorum.state
        self.quorum.to_follower(epoch, leader_id, endpoint, self.now_ms)
        if (before.leader_id, before.epoch) != (leader_id, epoch):
            logger.info(
                "node %d follows node %d, the leader of the metadata quorum in epoch %d, at %s",
                self.local.node_id,
                leader_id,
                epoch,
                endpoint,
            )
        self._on_state_changed(before)

    def become_prospective(self) -> None:
        before = self.quorum.state
        self.quorum.to_prospective(self.now_ms)
        self._on_state_changed(before)

    def become_candidate(self) -> None:
        before = self.quorum.state
        candidate = self.quorum.to_candidate(self.now_ms)
        logger.info(
            "node %d stands for election as leader of the metadata quorum in epoch %d",
            self.local.node_id,
            candidate.epoch,
        )
        self._on_state_changed(before)

    def become_leader(self) -> LeaderState:
        before = self.quorum.state
        leader = self.quorum.to_leader(self.log.end_offset, self.now_ms)
        logger.info("node %d leads the metadata quorum in epoch %d", self.local.node_id, leader.epoch)
        self._on_state_changed(before)
        return leader

    def resign(self, reason: str) -> None:
        before = self.quorum.state
        resigned = self.quorum.to_resigned(self.now_ms)
        logger.info(
            "node %d resigns as leader of the metadata quorum in epoch %d: %s",
            self.local.node_id,
            resigned.epoch,
            reason,
        )
        self._on_state_changed(before)

    def _on_state_changed(self, before: EpochState) -> None:
        self._on_transition(before)
        self.wake()
