"""`ShareMembership`: the state of one member of a share group (KIP-932), without I/O.

Members share partitions: nothing has to be revoked before another member gets it, and nothing is reported.

Source: ShareMembershipManager, ShareHeartbeatRequestManager (Kafka 4.3).
"""

from ottla.client.membership import LEAVE_EPOCH, Membership
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse


class ShareMembership(Membership[ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse]):
    """See the module."""

    def next_heartbeat(self) -> ShareGroupHeartbeatRequest:
        request = ShareGroupHeartbeatRequest(group_id=self._group_id, member_id=self.member_id, member_epoch=self.epoch)
        if self._must_describe or not self.is_member:
            request.subscribed_topic_names = list(self._topics)
        return request

    def leave_heartbeat(self) -> ShareGroupHeartbeatRequest:
        return ShareGroupHeartbeatRequest(group_id=self._group_id, member_id=self.member_id, member_epoch=LEAVE_EPOCH)
