"""`Probes`: connections that only test whether a process listens at an endpoint."""

from collections.abc import Iterator

from ottla.peers.channel import PeerFailure
from ottla.ports import ConnectionId, Network
from ottla.purgatory import Delayed
from ottla.types import Endpoint


class Probe:
    """A connection that is opened only to test whether it can be established and lasts.

    Establishing it proves little: a process that is exiting may have closed its connections and not its listener yet,
    and the kernel continues to accept on its behalf. So the connection must last until the deadline; if it does not, a
    second attempt decides.
    """

    __slots__ = ("connection", "deadline_ms", "endpoint", "is_connected", "is_second", "listener", "result")

    def __init__(self, endpoint: Endpoint, listener: str, deadline_ms: int) -> None:
        self.endpoint = endpoint
        self.listener = listener
        self.deadline_ms = deadline_ms
        self.connection: ConnectionId
        self.is_connected = False
        self.is_second = False
        self.result: Delayed[PeerFailure | None] = Delayed()


class Probes:
    """The probes of a client, by connection."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._probes: dict[ConnectionId, Probe] = {}

    def __contains__(self, connection: ConnectionId) -> bool:
        return connection in self._probes

    def start(self, probe: Probe) -> None:
        probe.connection = self._network.connect(probe.endpoint, probe.listener)
        probe.is_connected = False
        self._probes[probe.connection] = probe

    def on_connected(self, connection: ConnectionId) -> None:
        if connection in self._probes:
            self._probes[connection].is_connected = True

    def remove(self, connection: ConnectionId) -> Probe:
        return self._probes.pop(connection)

    def expired(self, now_ms: int) -> list[Probe]:
        return [probe for probe in self._probes.values() if probe.deadline_ms <= now_ms]

    def deadlines_ms(self) -> Iterator[int]:
        for probe in self._probes.values():
            yield probe.deadline_ms

    def clear(self) -> None:
        self._probes.clear()
