"""`DisconnectedLeaders`: leaders whose connection to this node broke a moment ago.

Responses that would name one of them wait for its successor.

When a process ends, its clients request the new leader from another broker within the millisecond. The metadata cannot
have it yet: the controller is still detecting the failure, or is being elected itself. A client that receives the
leader that it has just lost retries when it pleases; librdkafka takes up to a second. But this broker may have lost the
same leader in the same millisecond, since it fetches from it: then the response waits until the metadata has another
leader, until the lost one is reachable again, or until a second is over, and has the state of that moment.

A process that is killed closes its connections one by one, and may be interrupted between them: the request may arrive
before the broker's own connection to the leader breaks. Connections that the dead process had opened, to fetch as a
follower, are closed first (see `runtime.connector`): when one of them ends, responses wait for a tenth of a second,
in which the other one breaks as well or proves to work.

Kafka has no equivalent.
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

    def lost_leaders(self) -> Set[NodeId]:
        """Return the leaders that this node has just lost, or suspects, while the metadata has them as alive."""
        waits = self._waits()
        if not waits:
            return frozenset()
        now_ms = self._clock.monotonic_ms()
        return {leader for leader, until_ms in waits if now_ms < until_ms and self._is_alive(leader)}

    def _waits(self) -> list[tuple[NodeId, int]]:
        """Return the leaders whose successors are waited for, or were a moment ago, each with its deadline."""
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

    def respond_when_settled(
        self, concerns: Callable[[Set[NodeId]], bool], respond: Callable[[], Message | Steps[Message]]
    ) -> Delayed[Message | Steps[Message]]:
        """Return ``respond()`` once no lost leader concerns the response, which is at once if none does.

        Args:
            concerns: whether the response, as it would be now, names one of these as a leader.
            respond: builds the response; called once.
        """

        def settled() -> Message | Steps[Message] | None:
            lost = self.lost_leaders()
            return None if lost and concerns(lost) else respond()

        deadline_ms = self._clock.monotonic_ms() + WAIT_MS_MAX
        return self._waiting.watch((_ANY_LEADER,), deadline_ms=deadline_ms, try_complete=settled, on_deadline=respond)

    def check_waiting(self) -> None:
        """Complete the responses that need not wait any longer."""
        if len(self._waiting):
            self._waiting.check(_ANY_LEADER)

    @property
    def is_awaited(self) -> bool:
        """Whether a response waits: then `tick` must be called after every event."""
        return self._waiting.due_ms != NEVER_MS

    def tick(self, now_ms: int) -> None:
        self.check_waiting()
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
