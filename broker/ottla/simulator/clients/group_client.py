"""Base of simulated members of groups: what a member of either protocol has, and its requests to the coordinator."""

from abc import abstractmethod

from ottla.peers.channel import PeerResult
from ottla.simulator.clients.client_host import ClientHost
from ottla.simulator.clients.restartable_client import RestartableClient
from ottla.types import ZERO_UUID, Endpoint, Offset, Uuid
from ottla.wire.codec import Message


class GroupClient(RestartableClient):
    """See the module. A subclass finds the coordinator, joins, and reacts to the responses."""

    retry_backoff_ms = 200

    def __init__(self, host: ClientHost, name: str, group: str, topic: str) -> None:
        super().__init__(host, name)
        self.group = group
        self.topic = topic
        self.owned: dict[int, Offset] = {}
        """The offsets that it would commit next, by partition."""
        self._coordinator: Endpoint | None = None

    def _ask(self, request: Message) -> None:
        assert self._coordinator is not None, "the coordinator was found"
        self._send(self._coordinator, request, self.name, self._on_response)

    @abstractmethod
    def _on_response(self, response: PeerResult) -> None:
        """Continue after the coordinator's response, or after a failure to get one."""

    def _topic_id(self) -> Uuid:
        target = self._host.target(self.topic, 0)
        return ZERO_UUID if target is None else target.key.topic_id
