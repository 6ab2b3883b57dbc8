"""A copier's membership in a consumer group: it joins and heartbeats; the copier commits the offsets."""

from collections.abc import Callable
from typing import NamedTuple

from ottla.simulator.clients.client_host import ClientHost
from ottla.simulator.clients.group_member import GroupMember
from ottla.simulator.invariants.group_invariants import GroupInvariants


class Assignment(NamedTuple):
    """Group metadata of a consumer, and its partitions; generation -1 and no member id without a membership."""

    partitions: tuple[int, ...]
    generation: int = -1
    member_id: str = ""


class CopierMember(GroupMember):
    """See the module. ``on_assigned`` is called with each assignment."""

    def __init__(
        self,
        host: ClientHost,
        invariants: GroupInvariants,
        name: str,
        group: str,
        topic: str,
        on_assigned: Callable[[Assignment], object],
    ) -> None:
        super().__init__(host, invariants, name, group, topic)
        self._assigned = on_assigned
        self._paused_until_ms = 0

    def pause(self, milliseconds: int) -> None:
        """Send no heartbeat for so long: the session may expire."""
        self._paused_until_ms = self._host.cluster.clock.monotonic_ms() + milliseconds

    def _on_assigned(self, partitions: list[int]) -> None:
        self._assigned(Assignment(tuple(partitions), self.generation, self._member_id))
        self._beat_later()

    def _beat(self) -> None:
        if self._host.cluster.clock.monotonic_ms() < self._paused_until_ms:
            self._beat_later()
        else:
            super()._beat()
