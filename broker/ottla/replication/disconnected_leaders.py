"""`DisconnectedLeaders`: leaders whose connection to this node broke a moment ago.

Responses that would name one of them wait for its successor.

When a process ends, its clients ask another broker who leads now, within the millisecond. The metadata cannot know yet:
the controller is still making sure, or is being elected itself. Told of the leader that it has just lost, a client
asks again when it pleases; librdkafka takes up to a second. But this broker may have lost the same leader in the same
millisecond, since it copies from it: then the answer waits until the metadata has another leader, until the lost one
turns out to be there, or until a second is over, and is what it would have been then.

A process that is killed closes its connections one by one, and may be interrupted between them: the client may ask
before the broker's own connection to the leader breaks. Those that the dead process had opened, to fetch as a follower,
are closed first (`runtime.dialer` sees to that): where one of them ends, answers wait for a tenth of a second, in which
the other is seen to break as well or is not.

Kafka has nothing of the kind.
"""

from collections.abc import Callable, Set
from typing import Final

from ottla.ports import Clock
from ottla.purgatory import Delayed, Purgatory
from ottla.purgatory.steps import Steps
from ottla.replication.peer_brokers import Brokers
from ottla.replication.replica_fetcher_manager import ReplicaFetcherManager
from ottla.types import NEVER_MS, NodeId
from ottla.wire.codec import Message

WAIT_MS_MAX: Final = 1_000
SUSPICION_MS: Final = 100
_ANY_LEADER: Final = "any"


class DisconnectedLeaders:
    """See the module."""

    def __init__(self, *, clock: Clock, fetchers: ReplicaFetcherManager, brokers: Brokers) -> None:
        self._clock = clock
        self._fetchers = fetchers
        self._brokers = brokers
        self._suspected_since_ms: dict[NodeId, int] = {}
        self._waiting: Purgatory[Message | Steps[Message]] = Purgatory()

    def now(self) -> Set[NodeId]:
        """Return the leaders that this node lost, or began to suspect, just now and the metadata calls alive."""
        waits = self._waits()
        if not waits:
            return frozenset()
        now_ms = self._clock.monotonic_ms()
        return {leader for leader, until_ms in waits if now_ms < until_ms and self._is_alive(leader)}

    def _waits(self) -> list[tuple[NodeId, int]]:
        """Return for whose successors answers wait, or waited a moment ago, and until when."""
        waits = [(leader, since_ms + WAIT_MS_MAX) for leader, since_ms in self._fetchers.lost_since_ms().items()]
        waits += [(leader, since_ms + SUSPICION_MS) for leader, since_ms in self._suspected_since_ms.items()]
        return waits

    def suspect(self, broker_id: NodeId) -> None:
        """Note that ``broker_id`` has ended a connection that it fetched over; once a second at most."""
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._suspected_since_ms.get(broker_id, -WAIT_MS_MAX) + WAIT_MS_MAX:
            self._suspected_since_ms[broker_id] = now_ms

    def _is_alive(self, leader: NodeId) -> bool:
        broker = self._brokers.find(leader)
        return broker is not None and not broker.is_fenced

    def answer_without(
        self, concerns: Callable[[Set[NodeId]], bool], answer: Callable[[], Message | Steps[Message]]
    ) -> Delayed[Message | Steps[Message]]:
        """Return ``answer()`` as soon as no leader that is lost concerns it, which is at once if none does.

        Args:
            concerns: whether the answer, as it would be now, names one of these as a leader.
            answer: makes it; called once.
        """

        def settled() -> Message | Steps[Message] | None:
            lost = self.now()
            return None if lost and concerns(lost) else answer()

        deadline_ms = self._clock.monotonic_ms() + WAIT_MS_MAX
        return self._waiting.watch((_ANY_LEADER,), deadline_ms=deadline_ms, try_complete=settled, on_deadline=answer)

    def look_again(self) -> None:
        """Give the answers that need not wait any longer."""
        if len(self._waiting):
            self._waiting.check(_ANY_LEADER)

    @property
    def is_awaited(self) -> bool:
        """Whether an answer waits: then `tick` is to be called whenever something has happened."""
        return self._waiting.due_ms != NEVER_MS

    def tick(self, now_ms: int) -> None:
        self.look_again()
        self._waiting.expire(now_ms)
        if self._suspected_since_ms:
            oldest_ms = now_ms - WAIT_MS_MAX
            self._suspected_since_ms = {
                broker_id: since_ms for broker_id, since_ms in self._suspected_since_ms.items() if since_ms > oldest_ms
            }

    def next_deadline_ms(self) -> int | None:
        deadline_ms = self._waiting.next_deadline_ms()
        if deadline_ms is None:
            return None
        now_ms = self._clock.monotonic_ms()
        return min([deadline_ms, *(until_ms for _, until_ms in self._waits() if until_ms > now_ms)])
