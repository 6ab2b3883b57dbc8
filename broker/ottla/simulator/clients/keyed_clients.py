"""Clients of a compacted topic: a producer of few keys, which also deletes them, and a reader of all that is left."""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.simulator.clients.client_host import ClientHost
from ottla.simulator.clients.consumer import DECOMPRESSED_BYTES_MAX, Consumer
from ottla.simulator.clients.producer import Producer
from ottla.simulator.invariants.compaction_invariants import check_scan
from ottla.simulator.invariants.ledger import PartitionKey
from ottla.simulator.invariants.state_observer import StateObserver
from ottla.types import LeaderEpoch, Offset
from ottla.wire.messages.fetch import PartitionData
from ottla.wire.records import iterate_batches, read_records

KEYS: Final = 6
DELETES_ONE_IN: Final = 3
SCAN_PAUSE_MS: Final = 200
FETCH_PAUSE_MS_MAX: Final = 400
CLEANING_MS_MAX: Final = 1_000
"""How long a cleaning takes at most, unless its process is paused: the time of its tombstones begins when it starts."""


class KeyedProducer(Producer):
    """Idempotent producer of few keys; some of its records are tombstones."""

    def _new_record(self, number: int) -> tuple[bytes | None, bytes]:
        random = self._host.random
        key = b"%d" % random.randrange(KEYS)
        if random.randrange(DELETES_ONE_IN) == 0:
            return key, b""
        return key, super()._new_record(number)[1]


class _Leader(NamedTuple):
    """The leader of a partition: its epoch, how often its wall clock was stepped, and when it was continued last."""

    epoch: LeaderEpoch = -1
    step_count: int = 0
    thawed_ms: int = -1


@dataclass(slots=True)
class _Scan:
    """One read of a partition from its start to ``end_offset``, the end of what was committed when it began."""

    end_offset: Offset
    leader: _Leader
    started_ms: int
    table: dict[bytes, bytes] = field(default_factory=dict)
    is_over: bool = False


class KeyedReader(Consumer):
    """Reads a compacted topic again and again, and checks what it knows of each key then.

    A key whose tombstone was removed meanwhile may be in its table still: a scan counts only if it took less than
    ``delete_retention_ms`` without the time of a cleaning, from one leader that was not paused and whose wall clock was
    not stepped. Replicas clean their logs at different times.
    """

    size_bytes_max = 512

    def __init__(
        self, host: ClientHost, state_observer: StateObserver, name: str, topic: str, *, delete_retention_ms: int
    ) -> None:
        super().__init__(host, state_observer, name, topic)
        self.scan_count = 0
        self._scan_ms_max = delete_retention_ms - CLEANING_MS_MAX
        self._scans: dict[int, _Scan] = {}
        self._is_repeating = True

    def _fetch(self, partition: int) -> None:
        """Fetch after a pause: cleanings have to come in the middle of a scan."""
        self._host.after(1 + self._host.random.randrange(FETCH_PAUSE_MS_MAX), lambda: self._fetch_next(partition))

    def _fetch_next(self, partition: int) -> None:
        super()._fetch(partition)

    def finish(self) -> None:
        """Read to the end, and then no more."""
        self._is_repeating = False

    def _take(self, partition: int, key: PartitionKey, data: PartitionData) -> None:
        if partition not in self._scans and (self._is_repeating or self._positions[partition] == 0):
            self._start_scan(partition, key)
            return
        position = self._positions[partition]
        # None of a reader that has finished, and takes what is new.
        scan = self._scans.get(partition)
        table = {} if scan is None else scan.table
        assert data.records is None or isinstance(data.records, memoryview), "a response is one buffer"
        values = []
        for batch in iterate_batches(data.records or b""):
            for record in read_records(batch, size_bytes_max=DECOMPRESSED_BYTES_MAX):
                if record.offset < position:
                    continue
                assert record.key is not None, "every record of the topic has a key"
                values.append((record.offset, record.value or b""))
                if record.value:
                    table[record.key] = record.value
                else:
                    table.pop(record.key, None)
            position = max(position, batch.next_offset)
        self.read_count += len(values)
        self._state_observer.read(key, values)
        self._positions[partition] = position
        if scan is not None and position >= scan.end_offset and not scan.is_over:
            self._end_scan(partition, key, scan)

    def _start_scan(self, partition: int, key: PartitionKey) -> None:
        self._positions[partition] = 0
        self._scans[partition] = self._new_scan(key)

    def _new_scan(self, key: PartitionKey) -> _Scan:
        ledger = self._state_observer.ledger.partition(key)
        return _Scan(ledger.end, self._leader(key), self._host.cluster.clock.now_ms)

    def _leader(self, key: PartitionKey) -> _Leader:
        topic = self._state_observer.image.topics.by_id.get(key.topic_id)
        if topic is None:
            return _Leader()
        partition = topic.partitions[key.partition]
        place = self._host.cluster.nodes.get(partition.leader)
        if place is None:
            return _Leader(partition.leader_epoch)
        return _Leader(partition.leader_epoch, place.step_count, place.thawed_ms)

    def _end_scan(self, partition: int, key: PartitionKey, scan: _Scan) -> None:
        took_ms = self._host.cluster.clock.now_ms - scan.started_ms
        was_paused = scan.leader.thawed_ms >= 0 and scan.started_ms - scan.leader.thawed_ms < CLEANING_MS_MAX
        position = self._positions[partition]
        is_steady = scan.leader == self._leader(key) and not was_paused
        if position > 0 and is_steady and took_ms < self._scan_ms_max:
            self.scan_count += 1
            check_scan(self._state_observer.ledger.partition(key), position, scan.table)
        scan.is_over = True
        self._host.after(SCAN_PAUSE_MS, lambda: self._scans.pop(partition, None))
