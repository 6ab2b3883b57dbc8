"""Producer ids for this node's producers, out of blocks of a thousand that the controller hands out.

Source: RPCProducerIdManager of Apache Kafka 4.3 (without its prefetch thread: the next block is asked for when the
current one is nine tenths used).
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from ottla.errors import ErrorCode
from ottla.purgatory import Delayed
from ottla.types import ProducerId
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsResponse

_PREFETCH_WHEN_LEFT = 100


@dataclass(slots=True, kw_only=True)
class ProducerIds:
    """Hands out ids, each once. ``allocate_block`` asks the controller for the next block."""

    allocate_block: Callable[[], Delayed[AllocateProducerIdsResponse]]
    _next: ProducerId = 0
    _end: ProducerId = 0
    _coming: tuple[ProducerId, ProducerId] | None = None
    _is_asking: bool = False
    _waiting: list[Delayed[ProducerId | ErrorCode]] = field(default_factory=list)

    def take(self) -> Delayed[ProducerId | ErrorCode]:
        """Return the next id, or COORDINATOR_LOAD_IN_PROGRESS when the controller gave no block."""
        answer: Delayed[ProducerId | ErrorCode] = Delayed()
        self._waiting.append(answer)
        self._serve()
        if (self._waiting or self._end - self._next <= _PREFETCH_WHEN_LEFT) and self._coming is None:
            self._ask()
        return answer

    def _serve(self) -> None:
        while self._waiting:
            if self._next == self._end:
                if self._coming is None:
                    return
                (self._next, self._end), self._coming = self._coming, None
            producer_id = self._next
            self._next += 1
            # An ErrorCode is an int too; ids are told apart by their type, so this one must be a plain int.
            self._waiting.pop(0).complete(int(producer_id))

    def _ask(self) -> None:
        if not self._is_asking:
            self._is_asking = True
            self.allocate_block().on_complete(self._on_block)

    def _on_block(self, response: AllocateProducerIdsResponse) -> None:
        self._is_asking = False
        if response.error_code == ErrorCode.NONE:
            first = response.producer_id_start
            self._coming = (first, first + response.producer_id_len)
            self._serve()
        else:
            waiting, self._waiting = self._waiting, []
            for answer in waiting:
                answer.complete(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
