"""Base of simulated members of groups: what a member of any protocol has, and its requests to the coordinator."""

from abc import abstractmethod
from typing import Final

from ottla.client.membership import FENCED_CODES
from ottla.errors import ErrorCode
from ottla.peers.channel import PeerResult
from ottla.simulator.clients.client_host import ClientHost
from ottla.simulator.clients.restartable_client import GROUP_KEY, RestartableClient
from ottla.types import ZERO_UUID, Endpoint, Offset, Uuid
from ottla.wire.codec import Message

REMOVED_CODES: Final = FENCED_CODES | {ErrorCode.GROUP_ID_NOT_FOUND}
"""A group is gone once the sessions of all its members are over and no offset is left."""


class GroupClient(RestartableClient):
    """See the module. A subclass joins, and reacts to the responses."""

    retry_backoff_ms = 200

    def __init__(self, host: ClientHost, name: str, group: str, topic: str) -> None:
        super().__init__(host, name)
        self.group = group
        self.topic = topic
        self.owned: dict[int, Offset] = {}
        """The offsets that it would commit next, by partition."""
        self._coordinator: Endpoint | None = None

    def _find(self) -> None:
        """Wait for the topic, then find the coordinator."""
        if self._host.partition_count(self.topic) == 0:
            self._host.refresh()
            self._run_later(self._find)
            return
        self._find_coordinator(GROUP_KEY, self.group, self._on_found)

    def _on_found(self, endpoint: Endpoint) -> None:
        self._coordinator = endpoint
        self._on_coordinator()

    @abstractmethod
    def _on_coordinator(self) -> None:
        """Send the first request to a coordinator that was found."""

    def _ask(self, request: Message) -> None:
        assert self._coordinator is not None, "the coordinator was found"
        self._send(self._coordinator, request, self.name, self._on_response)

    @abstractmethod
    def _on_response(self, response: PeerResult) -> None:
        """Continue after the coordinator's response, or after a failure to get one."""

    def _topic_id(self) -> Uuid:
        target = self._host.target(self.topic, 0)
        return ZERO_UUID if target is None else target.key.topic_id
