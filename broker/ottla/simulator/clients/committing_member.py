"""Base of simulated members that commit offsets with member epochs: of consumer groups and of streams groups.

Their coordinator assigns by heartbeats (KIP-848, KIP-1071). They read no records: the run checks ownership, and that no
committed offset is ever lost.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Final

from ottla.errors import ErrorCode
from ottla.peers.channel import PeerResult
from ottla.simulator.clients.client_host import ClientHost
from ottla.simulator.clients.group_client import REMOVED_CODES, GroupClient
from ottla.simulator.clients.requests import offset_commit_request
from ottla.simulator.invariants.group_invariants import GroupInvariants
from ottla.wire.messages.offset_commit import OffsetCommitResponse
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

HEARTBEAT_INTERVAL_MS: Final = 300
PAUSE_MS_MAX: Final = 12_000
"""Twice the session timeout of the groups."""


class CommittingMember(GroupClient):
    """See the module. Each round trip ends in the next: find, then heartbeats, offsets of what it takes, commits.

    ``mischief_one_in`` is the number of round trips after which it does something unusual, on average.
    """

    mischief_one_in = 60

    def __init__(self, host: ClientHost, offsets: GroupInvariants, name: str, group: str, topic: str) -> None:
        super().__init__(host, name, group, topic)
        self._offsets = offsets
        self._incarnation = 0
        self._is_faulty = True

    @property
    @abstractmethod
    def member_id(self) -> str: ...

    @property
    @abstractmethod
    def epoch(self) -> int:
        """The member epoch of the last response."""

    @abstractmethod
    def _beat(self) -> None:
        """Send the next heartbeat."""

    @abstractmethod
    def _own(self) -> None:
        """Let the next heartbeat report what the member owns, and continue."""

    @abstractmethod
    def _release_all(self) -> None:
        """Give up everything: the coordinator has removed the member."""

    @abstractmethod
    def _do_something_unusual(self) -> None: ...

    def _on_response(self, response: PeerResult) -> None:
        if isinstance(response, OffsetFetchResponse):
            self._on_offsets(response)
        elif isinstance(response, OffsetCommitResponse):
            self._on_committed(response)
        else:
            self._run_later(self._find)

    def _on_heartbeat_error(self, code: int) -> None:
        """Join again if the coordinator has removed the member; else find the coordinator again."""
        if code in REMOVED_CODES:
            self._release_all()
            self._run_later(self._beat)
        else:
            self._run_later(self._find)

    def _go_on(self) -> None:
        if self._is_faulty and self._host.random.randrange(self.mischief_one_in) == 0:
            self._do_something_unusual()
        elif self.owned and self._host.random.randrange(2):
            self._commit()
        else:
            self._run_later(self._beat, HEARTBEAT_INTERVAL_MS)

    def _pause(self) -> None:
        """Stop for a while: its session may expire meanwhile, and it does not know."""
        self._run_later(self._beat, self._host.random.randrange(PAUSE_MS_MAX))

    def _fetch_offsets(self, partitions: Sequence[int]) -> None:
        topic = OffsetFetchRequestTopics(name=self.topic, topic_id=self._topic_id(), partition_indexes=list(partitions))
        group = OffsetFetchRequestGroup(
            group_id=self.group, member_id=self.member_id, member_epoch=self.epoch, topics=[topic]
        )
        self._ask(OffsetFetchRequest(groups=[group]))

    def _on_offsets(self, response: OffsetFetchResponse) -> None:
        group = response.groups[0]
        partitions = [each for topic in group.topics for each in topic.partitions]
        if group.error_code or any(each.error_code for each in partitions):
            # The next heartbeat does not list what it could not start to read, and its response makes it try again.
            self._run_later(self._beat)
            return
        for each in partitions:
            self._offsets.on_fetched(self.group, each.partition_index, each.committed_offset)
            self.owned[each.partition_index] = max(each.committed_offset, 0) + 1
        self._own()

    def _commit(self) -> None:
        self._ask(
            offset_commit_request(
                self.group,
                self.topic,
                self.owned,
                topic_id=self._topic_id(),
                epoch=self.epoch,
                member_id=self.member_id,
            )
        )

    def _on_committed(self, response: OffsetCommitResponse) -> None:
        for each in response.topics[0].partitions:
            if each.error_code == ErrorCode.NONE:
                self._offsets.on_committed(
                    self.group, self.epoch, each.partition_index, self.owned[each.partition_index]
                )
                self.owned[each.partition_index] += 1
        # A stale epoch is corrected by the next heartbeat.
        self._run_later(self._beat, HEARTBEAT_INTERVAL_MS)
