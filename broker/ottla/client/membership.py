"""`Membership`: the state of one member of a group whose coordinator assigns partitions by heartbeats, without I/O.

What members of consumer groups (KIP-848) and of share groups (KIP-932) have in common.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Final, Generic, TypeVar

from ottla.errors import ErrorCode
from ottla.types import Uuid
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1

FENCED_CODES: Final = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})

Partitions = Mapping[Uuid, frozenset[int]]

RequestT = TypeVar("RequestT", bound=ConsumerGroupHeartbeatRequest | ShareGroupHeartbeatRequest)
ResponseT = TypeVar("ResponseT", bound=ConsumerGroupHeartbeatResponse | ShareGroupHeartbeatResponse)


class Membership(ABC, Generic[RequestT, ResponseT]):
    """Decides the content of each heartbeat.

    Attributes:
        member_id: chosen by the client, for as long as it runs.
        epoch: of the last response; `JOIN_EPOCH` before the first one, and after the member was fenced.
        heartbeat_interval_ms: the coordinator's setting.
        assigned: what the coordinator assigns to the member.
    """

    def __init__(self, *, group_id: str, member_id: str, topics: Sequence[str]) -> None:
        """Start outside of the group, with a subscription to ``topics``."""
        self.member_id = member_id
        self.epoch = JOIN_EPOCH
        self.heartbeat_interval_ms = 0
        self.assigned: Partitions = {}
        self._group_id = group_id
        self._topics = list(topics)
        self._must_describe = True
        """Whether the coordinator may lack the subscription."""

    @property
    def is_member(self) -> bool:
        return self.epoch > JOIN_EPOCH

    @abstractmethod
    def next_heartbeat(self) -> RequestT:
        """Return the heartbeat that is due; `on_response` or `on_failure` must be called before the next one."""

    def on_response(self, request: RequestT, response: ResponseT) -> None:
        """Take over a response without an error code."""
        if request.subscribed_topic_names == self._topics:
            self._must_describe = False
        self.member_id = response.member_id or self.member_id
        self.epoch = response.member_epoch
        self.heartbeat_interval_ms = response.heartbeat_interval_ms
        if response.assignment is not None:
            self.assigned = {each.topic_id: frozenset(each.partitions) for each in response.assignment.topic_partitions}

    @abstractmethod
    def leave_heartbeat(self) -> RequestT:
        """Return the last heartbeat."""

    def on_failure(self) -> None:
        """Repeat everything in the next heartbeat: the coordinator may lack the last one, or may be another one."""
        self._must_describe = True

    def on_fenced(self) -> None:
        """Note that the member's partitions are lost, and that it has to join again."""
        self.epoch = JOIN_EPOCH
        self.assigned = {}
        self._must_describe = True

    def subscribe(self, topics: Sequence[str]) -> None:
        """Replace the subscription; the next heartbeat names it."""
        self._topics = list(topics)
        self._must_describe = True
