"""A simulated member of a share group (KIP-932): heartbeats, acquires records, and acknowledges what it acquired.

`ShareMembership`, `ShareSession` and `Acknowledgements` of this project's own client decide what it sends. It accepts
most records, releases and rejects some. Now and then it stops for longer than its locks and its session, or starts
again under another id.

Source: ShareConsumeRequestManager, ShareHeartbeatRequestManager of Apache Kafka's client.
"""

from typing import Final

from ottla.client.acknowledgements import Acknowledgements
from ottla.client.share_membership import ShareMembership
from ottla.client.share_session import ShareSession
from ottla.errors import ErrorCode
from ottla.peers.channel import PeerResult
from ottla.share_partitions.share_session_cache import ShareSessionKey
from ottla.simulator.clients.client_host import ClientHost
from ottla.simulator.clients.group_client import REMOVED_CODES, GroupClient
from ottla.simulator.invariants.share_group_invariants import Decisions, ShareGroupInvariants
from ottla.simulator.invariants.share_locks import ShareFetchSent, ShareLocks
from ottla.types import Endpoint, Offset, TopicIdPartition
from ottla.wire.acknowledge_type import AcknowledgeType
from ottla.wire.messages.share_fetch import PartitionData, ShareFetchRequest, ShareFetchResponse
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ottla.wire.session_epochs import INITIAL_EPOCH

HEARTBEAT_INTERVAL_MS: Final = 300
MAX_WAIT_MS: Final = 100
_RECORDS_MAX: Final = 20
_MISCHIEF_ONE_IN: Final = 80
_POISONED_ONE_IN: Final = 16
"""A record that is always released, until it was delivered as often as the limit allows."""
_PAUSE_MS_MAX: Final = 12_000


class _Leader:
    """The member's session with one leader, and the records that it has acquired there."""

    def __init__(self) -> None:
        self.session = ShareSession()
        self.acquired: dict[TopicIdPartition, Acknowledgements] = {}
        self.decisions: dict[TopicIdPartition, Decisions] = {}
        self.acquired_ms = 0
        """When they were requested."""


class ShareGroupMember(GroupClient):
    """See the module. In a loop: a heartbeat, then a fetch from one leader with acknowledgements of the one before."""

    def __init__(
        self,
        host: ClientHost,
        invariants: ShareGroupInvariants,
        locks: ShareLocks,
        name: str,
        group: str,
        topic: str,
    ) -> None:
        super().__init__(host, name, group, topic)
        self._invariants = invariants
        self._locks = locks
        self._incarnation = 0
        self._is_faulty = True
        self._membership = self._new_membership()
        self._last_heartbeat = ShareGroupHeartbeatRequest()
        self._leaders: dict[Endpoint, _Leader] = {}

    def start(self) -> None:
        """Start as a new member: find the coordinator. The locks of the process before it time out."""
        self._incarnation += 1
        self._membership = self._new_membership()
        self._leaders = {}
        self._find()

    def finish(self) -> None:
        """Accept everything, and do nothing unusual from now on."""
        self._is_faulty = False

    def _new_membership(self) -> ShareMembership:
        return ShareMembership(group_id=self.group, member_id=f"{self.name}-{self._incarnation}", topics=[self.topic])

    def _on_coordinator(self) -> None:
        self._membership.on_failure()
        self._beat()

    # --- heartbeats

    def _beat(self) -> None:
        self._last_heartbeat = self._membership.next_heartbeat()
        self._ask(self._last_heartbeat)

    def _on_response(self, response: PeerResult) -> None:
        if not isinstance(response, ShareGroupHeartbeatResponse):
            self._run_later(self._find)
        elif response.error_code in REMOVED_CODES:
            self._membership.on_fenced()
            self._run_later(self._beat)
        elif response.error_code != ErrorCode.NONE:
            self._run_later(self._find)
        else:
            self._membership.on_response(self._last_heartbeat, response)
            self._fetch()

    def _continue(self) -> None:
        if self._is_faulty and self._host.random.randrange(_MISCHIEF_ONE_IN) == 0:
            if self._host.random.randrange(2):
                # Its locks, and perhaps its session, expire meanwhile, and it does not know.
                self._run_later(self._beat, self._host.random.randrange(_PAUSE_MS_MAX))
            else:
                self._end_instance()
                self._run_later(self.start)
            return
        self._run_later(self._beat, self._host.random.randrange(HEARTBEAT_INTERVAL_MS))

    # --- records

    def _fetch(self) -> None:
        """Fetch from one leader the partitions that it leads, with the acknowledgements of what it gave before."""
        by_leader: dict[Endpoint, set[TopicIdPartition]] = {}
        for topic_id, numbers in self._membership.assigned.items():
            for number in numbers:
                target = self._host.target(self.topic, number)
                if target is not None:
                    by_leader.setdefault(target.endpoint, set()).add(TopicIdPartition(topic_id, number))
        endpoints = sorted(by_leader.keys() | self._leaders.keys())
        if not endpoints:
            self._continue()
            return
        endpoint = endpoints[self._host.random.randrange(len(endpoints))]
        leader = self._leaders.setdefault(endpoint, _Leader())
        decisions: dict[TopicIdPartition, Decisions] = {}
        acknowledged = {}
        if leader.session.epoch != INITIAL_EPOCH:
            decisions, leader.decisions = leader.decisions, {}
            acknowledged = {where: each.take() for where, each in leader.acquired.items()}
        acquired_ms = leader.acquired_ms
        for where, decided in decisions.items():
            self._invariants.on_acknowledgements_sent(self.group, where, decided)
            self._locks.on_acknowledgements_sent(self._session_key(), where, decided)
        leader.acquired, leader.decisions = {}, {}
        topics, removed = leader.session.fetch_topics(by_leader.get(endpoint, set()), acknowledged)
        request = ShareFetchRequest(
            group_id=self.group,
            member_id=self._membership.member_id,
            share_session_epoch=leader.session.epoch,
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=_RECORDS_MAX,
            batch_size=_RECORDS_MAX,
            topics=topics,
            forgotten_topics_data=removed,
        )
        sent = self._locks.on_sent(self._session_key(), endpoint, by_leader.get(endpoint, set()))
        leader.acquired_ms = sent.sent_ms
        self._send(
            endpoint,
            request,
            f"{self.name}-share",
            lambda response: self._on_fetched(leader, sent, decisions, acquired_ms, response),
        )

    def _on_fetched(
        self,
        leader: _Leader,
        sent: ShareFetchSent,
        decisions: dict[TopicIdPartition, Decisions],
        acquired_ms: int,
        response: PeerResult,
    ) -> None:
        if not isinstance(response, ShareFetchResponse):
            leader.session.on_lost()
            for where in sent.share_partitions:
                self._invariants.on_response_lost(self.group, where)
            self._host.refresh()
            self._run_later(self._continue)
            return
        if response.error_code:
            leader.session.on_lost()
            self._run_later(self._continue)
            return
        leader.session.on_success()
        for topic in response.responses:
            for entry in topic.partitions:
                where = TopicIdPartition(topic.topic_id, entry.partition_index)
                decided = decisions.get(where)
                if decided is not None and entry.acknowledge_error_code == ErrorCode.NONE:
                    self._invariants.on_acknowledged(self.group, where, decided, acquired_ms=acquired_ms)
                self._take(leader, sent, where, entry)
        self._continue()

    def _take(self, leader: _Leader, sent: ShareFetchSent, where: TopicIdPartition, entry: PartitionData) -> None:
        if entry.error_code != ErrorCode.NONE:
            self._host.refresh()
            return
        for acquired in entry.acquired_records:
            offsets = range(acquired.first_offset, acquired.last_offset + 1)
            self._invariants.on_acquired(
                self.group, where, offsets, delivery_count=acquired.delivery_count, sent_ms=sent.sent_ms
            )
            self._locks.on_given(sent, where, offsets)
            acknowledgements = leader.acquired.setdefault(where, Acknowledgements())
            acknowledgements.acquire(offsets, offsets)
            for offset in offsets:
                kind = self._decide(offset)
                acknowledgements.decide(offset, kind)
                leader.decisions.setdefault(where, {})[offset] = kind

    def _session_key(self) -> ShareSessionKey:
        return ShareSessionKey(self.group, self._membership.member_id)

    def _decide(self, offset: Offset) -> AcknowledgeType:
        if not self._is_faulty:
            return AcknowledgeType.ACCEPT
        if offset % _POISONED_ONE_IN == 0:
            return AcknowledgeType.RELEASE
        match self._host.random.randrange(10):
            case 0:
                return AcknowledgeType.RELEASE
            case 1:
                return AcknowledgeType.REJECT
            case _:
                return AcknowledgeType.ACCEPT
