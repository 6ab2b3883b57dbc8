"""A simulated member of a consumer group (KIP-848): heartbeats, reconciles, and commits offsets of what it owns.

`ConsumerMembership`, the state of this project's own client, decides what it sends and what it has to own. Now and
then it stops sending heartbeats for longer than its session, so that it comes back with an old epoch; it leaves and
joins again; it subscribes to nothing for a while. It reads no records: the run checks ownership, and that no committed
offset is ever lost.

Source: ConsumerHeartbeatRequestManager, ConsumerMembershipManager of Apache Kafka's client.
"""

from typing import Final

from ottla.client.consumer_membership import ConsumerMembership
from ottla.errors import ErrorCode
from ottla.peers.channel import PeerResult
from ottla.simulator.clients.client_host import ClientHost
from ottla.simulator.clients.committing_member import CommittingMember
from ottla.simulator.invariants.consumer_group_invariants import ConsumerGroupInvariants
from ottla.simulator.invariants.group_invariants import GroupInvariants
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

REBALANCE_TIMEOUT_MS: Final = 60_000
"""Above the session timeout: a member is removed because of its session, which the invariants know."""


class ConsumerGroupMember(CommittingMember):
    """See the module."""

    def __init__(
        self,
        host: ClientHost,
        invariants: ConsumerGroupInvariants,
        offsets: GroupInvariants,
        name: str,
        group: str,
        topic: str,
    ) -> None:
        super().__init__(host, offsets, name, group, topic)
        self._invariants = invariants
        self._is_subscribed = True
        self._membership = self._new_membership()
        self._last_heartbeat = ConsumerGroupHeartbeatRequest()

    def start(self) -> None:
        """Start as a new member: find the coordinator. The process before it owns its partitions for a session."""
        self._incarnation += 1
        self._membership = self._new_membership()
        self.owned = {}
        self._find()

    def stop(self, *, leaves: bool) -> None:
        """End the process; if it does not leave, the coordinator learns that by the end of its session."""
        if leaves and self._coordinator is not None:
            request = self._membership.leave_heartbeat()
            self._release_all()
            self._send(self._coordinator, request, self.name, lambda _: None)
        self._end_instance()
        self.owned = {}

    def finish(self) -> None:
        """Subscribe, and do nothing unusual from now on."""
        self._is_faulty = False
        self._is_subscribed = True
        self._membership.subscribe(self._subscription)

    @property
    def member_id(self) -> str:
        return self._membership.member_id

    @property
    def epoch(self) -> int:
        return self._membership.epoch

    @property
    def is_settled(self) -> bool:
        """Whether it is a member that subscribes to its topic."""
        return self._membership.is_member and self._is_subscribed

    @property
    def _subscription(self) -> list[str]:
        return [self.topic] if self._is_subscribed else []

    def _new_membership(self) -> ConsumerMembership:
        return ConsumerMembership(
            group_id=self.group,
            member_id=f"{self.name}-{self._incarnation}",
            topics=self._subscription,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
        )

    def _on_coordinator(self) -> None:
        # After a failure the coordinator may or may not know what the member sent last.
        self._membership.on_failure()
        self._beat()

    # --- heartbeats

    def _beat(self) -> None:
        request = self._last_heartbeat = self._membership.next_heartbeat()
        listed = request.topic_partitions
        owned = None if listed is None else {partition for topic in listed for partition in topic.partitions}
        self._invariants.on_heartbeat_sent(self.group, self.member_id, owned)
        self._ask(request)

    def _on_response(self, response: PeerResult) -> None:
        if isinstance(response, ConsumerGroupHeartbeatResponse):
            self._on_heartbeat(response)
        else:
            super()._on_response(response)

    def _on_heartbeat(self, response: ConsumerGroupHeartbeatResponse) -> None:
        if response.error_code != ErrorCode.NONE:
            self._on_heartbeat_error(response.error_code)
            return
        self._invariants.on_heartbeat_succeeded(self.group, self.member_id)
        self._membership.on_response(self._last_heartbeat, response)
        if self._membership.must_reconcile:
            self._reconcile()
        else:
            self._go_on()

    def _reconcile(self) -> None:
        """Give up what is not assigned any more, and take the rest with the group's offsets."""
        assigned = {partition for partitions in self._membership.assigned.values() for partition in partitions}
        for partition in self.owned.keys() - assigned:
            del self.owned[partition]
        taken = sorted(assigned - self.owned.keys())
        for partition in taken:
            self._invariants.on_assigned(self.group, self.epoch, partition, self.member_id)
        if taken:
            self._fetch_offsets(taken)
        else:
            self._own()

    def _own(self) -> None:
        """Let the next heartbeat report what the member owns, and continue.

        The client sends that heartbeat at once. Here it waits for its time, as if the member took a while to revoke:
        a coordinator that does not wait for it is found in half of the runs, not in one of forty.
        """
        self._membership.own({topic_id: self.owned.keys() for topic_id in self._membership.assigned})
        self._go_on()

    def _release_all(self) -> None:
        self._invariants.on_released(self.group, self.member_id)
        self.owned = {}
        self._membership.on_fenced()

    def _do_something_unusual(self) -> None:
        match self._host.random.randrange(4):
            case 0:
                self._pause()
            case 1:
                self._is_subscribed = not self._is_subscribed
                self._membership.subscribe(self._subscription)
                self._beat()
            case 2:
                self._leave()
            case _:
                # A new process; the coordinator is not notified of the end of the old one.
                self._end_instance()
                self._run_later(self.start)

    def _leave(self) -> None:
        request = self._membership.leave_heartbeat()
        self._release_all()
        assert self._coordinator is not None, "it has sent heartbeats"
        self._send(self._coordinator, request, self.name, lambda _: self._run_later(self._find))
