"""`LostLeaders`: leaders whose connection to this node broke a moment ago, and answers that wait for their successors.

When a process ends, its clients ask another broker who leads now, within the millisecond. The metadata cannot know yet:
the controller is still making sure, or is being elected itself. Told of the leader that it has just lost, a client
asks again when it pleases; librdkafka takes up to a second. But this broker may have lost the same leader in the same
millisecond, since it copies from it: then the answer waits until the metadata has another leader, until the lost one
turns out to be there, or until a second is over, and is what it would have been then.

Kafka has nothing of the kind.
"""

from collections.abc import Callable, Set
from typing import Final

from ottla.ports import Clock
from ottla.purgatory import Delayed, Purgatory
from ottla.replication.fetchers import Fetchers
from ottla.replication.neighbours import Brokers
from ottla.types import NodeId
from ottla.wire.codec import Message

WAIT_MS_MAX: Final = 1_000
_ANY_LEADER: Final = "any"


class LostLeaders:
    """See the module."""

    def __init__(self, *, clock: Clock, fetchers: Fetchers, brokers: Brokers) -> None:
        self._clock = clock
        self._fetchers = fetchers
        self._brokers = brokers
        self._waiting: Purgatory[Message] = Purgatory()

    def now(self) -> Set[NodeId]:
        """Return the leaders that this node lost less than a second ago and the metadata calls alive."""
        lost = self._fetchers.lost_since_ms()
        if not lost:
            return frozenset()
        oldest_ms = self._clock.monotonic_ms() - WAIT_MS_MAX
        return frozenset(leader for leader, since_ms in lost.items() if since_ms > oldest_ms and self._is_alive(leader))

    def _is_alive(self, leader: NodeId) -> bool:
        broker = self._brokers.find(leader)
        return broker is not None and not broker.is_fenced

    def answer_without(
        self, concerns: Callable[[Set[NodeId]], bool], answer: Callable[[], Message]
    ) -> Delayed[Message]:
        """Return ``answer()`` as soon as no leader that is lost concerns it, which is at once if none does.

        Args:
            concerns: whether the answer, as it would be now, names one of these as a leader.
            answer: makes it; called once.
        """

        def settled() -> Message | None:
            lost = self.now()
            return None if lost and concerns(lost) else answer()

        deadline_ms = self._clock.monotonic_ms() + WAIT_MS_MAX
        return self._waiting.watch((_ANY_LEADER,), deadline_ms=deadline_ms, try_complete=settled, on_deadline=answer)

    def look_again(self) -> None:
        """Give the answers that need not wait any longer."""
        if len(self._waiting):
            self._waiting.check(_ANY_LEADER)

    def tick(self, now_ms: int) -> None:
        self.look_again()
        self._waiting.expire(now_ms)

    def next_deadline_ms(self) -> int | None:
        return self._waiting.next_deadline_ms()
