"""`ConsumerMembership`: the state of one member of a group of the consumer protocol (KIP-848), without I/O.

A member sends heartbeats; each response has its epoch and, when it has changed, its assignment. The member revokes and
starts partitions on its own and reports with a heartbeat what it owns then: only after that the coordinator gives what
it revoked to others. A heartbeat names subscription and owned partitions only when they are new to the coordinator.

Source: ConsumerMembershipManager, ConsumerHeartbeatRequestManager (Kafka 4.3).
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from ottla.client.membership import LEAVE_EPOCH, Membership, Partitions
from ottla.types import Uuid
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)

STATIC_LEAVE_EPOCH: Final = -2
"""Leaves for a while: the coordinator keeps the partitions of a static member until its session has timed out."""


class ConsumerMembership(Membership[ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse]):
    """Decides the content of each heartbeat, and which partitions the member has to own.

    ``assigned`` is what the coordinator wants the member to own; ``owned`` is what it owns, as `own` has set it.
    """

    def __init__(
        self,
        *,
        group_id: str,
        member_id: str,
        topics: Sequence[str],
        rebalance_timeout_ms: int,
        server_assignor: str | None = None,
        instance_id: str | None = None,
        topic_regex: str | None = None,
    ) -> None:
        """Start outside of the group.

        Args:
            group_id: the group.
            member_id: chosen by the client, for as long as it runs.
            topics: the subscription.
            rebalance_timeout_ms: how long the member may take to revoke partitions.
            server_assignor: ``uniform``, ``range`` or None for the coordinator's choice.
            instance_id: the ``group.instance.id`` of a static member; None for a dynamic one.
            topic_regex: all topics whose whole names match are subscribed, too; the coordinator finds them.
        """
        super().__init__(group_id=group_id, member_id=member_id, topics=topics)
        self.owned: Partitions = {}
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._server_assignor = server_assignor
        self._instance_id = instance_id
        self._topic_regex = topic_regex
        self._reported: Partitions | None = None

    @property
    def must_reconcile(self) -> bool:
        """Whether the member does not own yet, or still owns, other partitions than are assigned to it."""
        return self.owned != self.assigned

    @property
    def must_report(self) -> bool:
        """Whether the next heartbeat is due at once, because the coordinator waits for its content."""
        return not self.is_member or self._reported != self.owned

    def next_heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self._instance_id,
        )
        if self._must_describe or not self.is_member:
            request.rebalance_timeout_ms = self._rebalance_timeout_ms
            request.subscribed_topic_names = list(self._topics)
            request.subscribed_topic_regex = self._topic_regex
            request.server_assignor = self._server_assignor
            # The coordinator rejects a join that lists partitions.
            request.topic_partitions = _as_list(self.owned) if self.is_member else []
        elif self._reported != self.owned:
            request.topic_partitions = _as_list(self.owned)
        return request

    def on_response(self, request: ConsumerGroupHeartbeatRequest, response: ConsumerGroupHeartbeatResponse) -> None:
        if request.topic_partitions is not None:
            self._reported = {each.topic_id: frozenset(each.partitions) for each in request.topic_partitions}
        super().on_response(request, response)

    def on_fenced(self) -> None:
        super().on_fenced()
        self.owned = {}
        self._reported = None

    def own(self, partitions: Mapping[Uuid, Collection[int]]) -> None:
        """Set what the member owns; the next heartbeat reports it.

        A member that was fenced meanwhile owns nothing.
        """
        if not self.is_member:
            return
        self.owned = {topic_id: frozenset(numbers) for topic_id, numbers in partitions.items() if numbers}

    def leave_heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        """Return the last heartbeat; the partitions of a dynamic member are given to others at once."""
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self.member_id,
            member_epoch=LEAVE_EPOCH if self._instance_id is None else STATIC_LEAVE_EPOCH,
            instance_id=self._instance_id,
        )


def _as_list(partitions: Partitions) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
    return [
        ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=sorted(numbers))
        for topic_id, numbers in sorted(partitions.items())
    ]
