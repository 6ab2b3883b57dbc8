"""Base of simulated clients that crash or restart: requests and timers of an instance end with it."""

from collections.abc import Callable

from ottla.errors import ErrorCode
from ottla.peers.channel import PeerResult
from ottla.simulator.clients.client_host import ClientHost
from ottla.types import Endpoint
from ottla.wire.codec import Message
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

GROUP_KEY = 0
TRANSACTION_KEY = 1


class RestartableClient:
    """See the module. ``retry_backoff_ms`` is the time before a request is repeated."""

    retry_backoff_ms = 100

    def __init__(self, host: ClientHost, name: str) -> None:
        self.name = name
        self._host = host
        self._instance = 0

    def _end_instance(self) -> None:
        """Drop all requests and timers so far."""
        self._instance += 1

    def _send(
        self,
        endpoint: Endpoint,
        request: Message,
        purpose: str,
        then: Callable[[PeerResult], object],
        *,
        is_before_version_2: bool = False,
    ) -> None:
        """See `ClientHost.ask`; no result reaches a later instance."""
        instance = self._instance
        self._host.ask(
            endpoint,
            request,
            purpose,
            lambda response: instance == self._instance and then(response),
            is_before_version_2=is_before_version_2,
        )

    def _run_later(self, action: Callable[[], object], delay_ms: int | None = None) -> None:
        """Call ``action`` after a time, by default that of a retry, unless the instance has ended by then."""
        instance = self._instance
        delay_ms = self.retry_backoff_ms if delay_ms is None else delay_ms
        self._host.after(delay_ms, lambda: instance == self._instance and action())

    def _find_coordinator(self, key_type: int, key: str, then: Callable[[Endpoint], object]) -> None:
        """Request the coordinator until there is one; ``key`` is a group or a transactional id."""

        def on_found(response: PeerResult) -> None:
            if isinstance(response, FindCoordinatorResponse) and response.coordinators:
                found = response.coordinators[0]
                if found.error_code == ErrorCode.NONE:
                    then(Endpoint(found.host, found.port))
                    return
            self._run_later(lambda: self._find_coordinator(key_type, key, then))

        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        self._send(self._host.any_node(), request, f"{self.name}-find", on_found)
