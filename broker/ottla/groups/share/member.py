"""`ShareMember`: one member of a share group, immutable.

Source: ShareGroupMember of Apache Kafka 4.3; KIP-932.
"""

from dataclasses import dataclass, field, replace

from ottla.groups.assignors.types import MemberAssignment


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMember:
    """One member.

    Attributes:
        member_epoch: the epoch that the member received last.
        previous_member_epoch: the one before, accepted once more because the response may have been lost.
        subscribed_topic_names: sorted, each once.
        assigned: partitions that it may read.
    """

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    assigned: MemberAssignment = field(default_factory=dict)

    @property
    def subscribed_topic_regex(self) -> str:
        """Return an empty string: share groups subscribe by name only."""
        return ""

    def moved_to(self, member_epoch: int, assigned: MemberAssignment) -> "ShareMember":
        """Return the member with another epoch, with its epoch so far as the previous one."""
        return replace(self, member_epoch=member_epoch, previous_member_epoch=self.member_epoch, assigned=assigned)
