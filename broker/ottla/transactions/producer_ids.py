"""Producer ids for this node's producers, from blocks of a thousand that the controller allocates (KIP-730).

The next block is requested when nine tenths of the current one are used.

Source: RPCProducerIdManager of Apache Kafka 4.3, which requests the next block in a thread.
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
    """Generator of ids, each of them once. ``allocate_block`` requests the next block from the controller."""

    allocate_block: Callable[[], Delayed[AllocateProducerIdsResponse]]
    _next: ProducerId = 0
    _end: ProducerId = 0
    _next_block: tuple[ProducerId, ProducerId] | None = None
    _is_requesting: bool = False
    _waiting: list[Delayed[ProducerId | ErrorCode]] = field(default_factory=list)

    def generate(self) -> Delayed[ProducerId | ErrorCode]:
        """Return the next id, or COORDINATOR_LOAD_IN_PROGRESS when the controller gave no block."""
        producer_id: Delayed[ProducerId | ErrorCode] = Delayed()
        self._waiting.append(producer_id)
        self._complete_waiting()
        if (self._waiting or self._end - self._next <= _PREFETCH_WHEN_LEFT) and self._next_block is None:
            self._request_block()
        return producer_id

    def _complete_waiting(self) -> None:
        while self._waiting:
            if self._next == self._end:
                if self._next_block is None:
                    return
                (self._next, self._end), self._next_block = self._next_block, None
            producer_id = self._next
            self._next += 1
            # An ErrorCode is an int too, and recognized by its type: an id must be a plain int.
            self._waiting.pop(0).complete(int(producer_id))

    def _request_block(self) -> None:
        if not self._is_requesting:
            self._is_requesting = True
            self.allocate_block().on_complete(self._on_block)

    def _on_block(self, response: AllocateProducerIdsResponse) -> None:
        self._is_requesting = False
        if response.error_code == ErrorCode.NONE:
            first = response.producer_id_start
            self._next_block = (first, first + response.producer_id_len)
            self._complete_waiting()
        else:
            waiting, self._waiting = self._waiting, []
            for delayed in waiting:
                delayed.complete(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
