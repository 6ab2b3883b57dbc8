"""A simulated consumer at ``read_committed``: it hides what was aborted, by the list in the response.

Source: CompletedFetch of Apache Kafka's client.
"""

from collections.abc import Callable
from typing import Final

from ottla.simulator.clients.client_host import ClientHost
from ottla.simulator.clients.consumer import DECOMPRESSED_BYTES_MAX, Consumer
from ottla.simulator.invariants.ledger import PartitionKey
from ottla.simulator.invariants.state_observer import StateObserver
from ottla.types import Offset
from ottla.wire.messages.fetch import PartitionData
from ottla.wire.records import ControlRecordType, Record, iterate_batches, parse_control_key, read_records

READ_COMMITTED: Final = 1


class CommittedReader(Consumer):
    """See the module. ``on_read`` is called with the partition and value of each record."""

    isolation_level = READ_COMMITTED

    def __init__(
        self,
        host: ClientHost,
        state_observer: StateObserver,
        on_read: Callable[[int, bytes], object],
        name: str,
        topic: str,
    ) -> None:
        super().__init__(host, state_observer, name, topic)
        self._on_read = on_read

    def _take(self, partition: int, key: PartitionKey, data: PartitionData) -> None:
        records, self._positions[partition] = committed_records(data, self._positions[partition])
        for record in records:
            self.read_count += 1
            self._on_read(partition, bytes(record.value or b""))


def committed_records(data: PartitionData, position: Offset) -> tuple[list[Record], Offset]:
    """Return the records of a response that were not aborted, from ``position`` on, and the position behind it."""
    starts = sorted((each.first_offset, each.producer_id) for each in data.aborted_transactions or ())
    aborted: set[int] = set()
    committed: list[Record] = []
    assert data.records is None or isinstance(data.records, memoryview), "a response is one buffer"
    for batch in iterate_batches(data.records or b""):
        while starts and starts[0][0] <= batch.last_offset:
            aborted.add(starts.pop(0)[1])
        records = [
            record for record in read_records(batch, size_bytes_max=DECOMPRESSED_BYTES_MAX) if record.offset >= position
        ]
        if batch.is_control:
            if any(parse_control_key(record.key) is ControlRecordType.ABORT for record in records):
                aborted.discard(batch.producer_id)
        elif batch.producer_id not in aborted:
            committed += records
        position = max(position, batch.next_offset)
    return committed, position
