"""DescribeProducers, ListOffsets, Fetch and DeleteRecords around open, committed and aborted transactions.

``transactional_reads.txt`` has a conversation with JVM Kafka 4.3.1: commands, each followed by its results. ``produce
PRODUCER EPOCH SEQUENCE`` appends two records, those of producer - outside of any transaction; ``end PRODUCER EPOCH
RESULT VERSION`` writes a marker.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ottla.errors import ErrorCode, KafkaError
from ottla.log.partition_log import AppendOrigin
from ottla.simulator.clients.requests import create_topic
from ottla.simulator.world.single_node import RunningNode
from ottla.wire.codec import Message
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.registry import ApiKey, response_type
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.wire.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, Record, build_batch, iterate_batches

RECORDING = Path(__file__).parent / "transactional_reads.txt"
TIMESTAMPS = {"latest": -1, "earliest": -2, "newest": -3, "after-0": 0}


class Conversation:
    """Runs the commands; ``ask`` sends a request, ``append`` a batch, and ``wait`` lets a millisecond pass or more."""

    def __init__(
        self, topic: str, ask: Callable[[Message, int], Any], append: Callable[[bytes], str], wait: Callable[[], int]
    ) -> None:
        self._topic = topic
        self._ask = ask
        self._append = append
        self._wait = wait

    def run(self, commands: list[str]) -> Iterator[str]:
        for command in commands:
            yield command
            name, *arguments = command.split()
            for line in getattr(self, name)(*arguments):
                yield f"    {line}"

    def produce(self, producer: str, epoch: str = "-", sequence: str = "-", kind: str = "transactional") -> list[str]:
        now_ms = self._wait()
        batch = build_batch(
            [Record(index, now_ms, b"k", b"v") for index in range(2)],
            producer_id=NO_PRODUCER_ID if producer == "-" else int(producer),
            producer_epoch=NO_PRODUCER_EPOCH if epoch == "-" else int(epoch),
            base_sequence=NO_SEQUENCE if sequence == "-" else int(sequence),
            is_transactional=producer != "-" and kind == "transactional",
        )
        return [self._append(batch)]

    def end(self, producer: str, epoch: str, result: str, version: str) -> list[str]:
        self._wait()
        marker = WritableTxnMarker(
            producer_id=int(producer),
            producer_epoch=int(epoch),
            transaction_result=result == "commit",
            transaction_version=int(version),
            topics=[WritableTxnMarkerTopic(name=self._topic, partition_indexes=[0])],
        )
        response = self._ask(WriteTxnMarkersRequest(markers=[marker]), 2)
        return [ErrorCode(response.markers[0].topics[0].partitions[0].error_code).name]

    def producers(self) -> list[str]:
        request = DescribeProducersRequest(topics=[TopicRequest(name=self._topic, partition_indexes=[0])])
        (partition,) = self._ask(request, 0).topics[0].partitions
        return sorted(
            f"{each.producer_id} epoch={each.producer_epoch} last_sequence={each.last_sequence} "
            f"coordinator_epoch={each.coordinator_epoch} open_from={each.current_txn_start_offset}"
            for each in partition.active_producers
        )

    def offsets(self) -> list[str]:
        lines = []
        for name, timestamp in TIMESTAMPS.items():
            found = []
            for isolation_level in (0, 1):
                wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
                request = ListOffsetsRequest(
                    replica_id=-1,
                    isolation_level=isolation_level,
                    topics=[ListOffsetsTopic(name=self._topic, partitions=[wanted])],
                )
                (partition,) = self._ask(request, 8).topics[0].partitions
                found.append(f"{partition.offset} {ErrorCode(partition.error_code).name}")
            lines.append(f"{name}: {found[0]}, committed {found[1]}")
        return lines

    def fetch(self, offset: str, size: str = "1000000") -> list[str]:
        lines = []
        for isolation_level in (0, 1):
            wanted = FetchPartition(partition=0, fetch_offset=int(offset), partition_max_bytes=int(size))
            request = FetchRequest(
                max_bytes=int(size),
                isolation_level=isolation_level,
                session_epoch=-1,
                topics=[FetchTopic(topic=self._topic, partitions=[wanted])],
            )
            (found,) = self._ask(request, 12).responses[0].partitions
            aborted = None
            if found.aborted_transactions is not None:
                aborted = [(each.producer_id, each.first_offset) for each in found.aborted_transactions]
            batches = [f"{batch.base_offset}-{batch.last_offset}" for batch in iterate_batches(found.records or b"")]
            lines.append(
                f"{'committed' if isolation_level else 'all'} {ErrorCode(found.error_code).name} "
                f"high_watermark={found.high_watermark} last_stable={found.last_stable_offset} "
                f"start={found.log_start_offset} aborted={aborted} batches={' '.join(batches) or None}"
            )
        return lines

    def delete(self, offset: str) -> list[str]:
        partitions = [DeleteRecordsPartition(partition_index=0, offset=int(offset))]
        topics = [DeleteRecordsTopic(name=self._topic, partitions=partitions)]
        (deleted,) = self._ask(DeleteRecordsRequest(topics=topics, timeout_ms=2_000), 2).topics[0].partitions
        return [f"{ErrorCode(deleted.error_code).name} low_watermark={deleted.low_watermark}"]


def test_reads_around_transactions_are_those_of_kafka(running: RunningNode) -> None:
    client = running.connect()
    create_topic(client, "t")

    def ask(request: Message, version: int) -> Any:
        return client.ask(request, response_type(ApiKey(request.api_key)), version)

    def append(batch: bytes) -> str:
        replicas = running.node.replicas
        try:
            result = replicas.append(
                replicas.get("t", 0), bytearray(batch), origin=AppendOrigin.CLIENT, required_acks=-1
            )
        except KafkaError as error:
            return error.code.name
        return f"NONE offset={result.first_offset}"

    def wait() -> int:
        running.run(10)
        return running.clock.wall_ms()

    recorded = RECORDING.read_text().splitlines()
    commands = [line for line in recorded if not line.startswith(" ")]

    assert list(Conversation("t", ask, append, wait).run(commands)) == recorded
