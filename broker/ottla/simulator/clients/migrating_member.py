"""A simulated member of a group that changes its protocol now and then, as in a rolling upgrade or downgrade."""

from typing import Final

from ottla.ports import Clock, Random
from ottla.simulator.clients.classic_consumer import ClassicConsumer
from ottla.simulator.clients.client_host import ClientHost
from ottla.simulator.clients.consumer_group_member import ConsumerGroupMember
from ottla.types import Offset

_PHASE_MS: Final = 4_000
"""How long the members change to one protocol, before they change to the other."""
_CHANGE_MS_MAX: Final = 3_000


class MigratingMember:
    """One process at a time, which uses one of the protocols; the process that follows it is a new member.

    Most members have the protocol of the phase: a group is converted back when the last one changes to the classic one.
    """

    def __init__(self, host: ClientHost, clock: Clock, consumer: ConsumerGroupMember, classic: ClassicConsumer) -> None:
        self._host = host
        self._clock = clock
        self._processes = (consumer, classic)
        self._is_over = False
        self._number = 0

    def start(self) -> None:
        self._number = self._clock.monotonic_ms() // _PHASE_MS % 2
        if self._random.randrange(8) == 0:
            self._number = 1 - self._number
        self._active.start()
        self._change_later()

    def finish(self) -> None:
        """Change no more."""
        self._is_over = True
        self._processes[0].finish()

    @property
    def owned(self) -> dict[int, Offset]:
        return self._active.owned

    @property
    def is_settled(self) -> bool:
        return self._active.is_settled

    @property
    def _active(self) -> ConsumerGroupMember | ClassicConsumer:
        return self._processes[self._number]

    @property
    def _random(self) -> Random:
        return self._host.random

    def _change_later(self) -> None:
        self._host.after(1 + self._random.randrange(_CHANGE_MS_MAX), self._change)

    def _change(self) -> None:
        if self._is_over:
            return
        if not self._active.is_settled:
            # It has not joined yet. If such processes were stopped, the group would never have two members at a time.
            self._change_later()
        else:
            self._active.stop(leaves=self._random.randrange(16) > 0)
            self.start()
