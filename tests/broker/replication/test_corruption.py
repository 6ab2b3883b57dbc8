"""Corrupt batches: rejected by followers, not served by leaders any more, truncated and copied again."""

import logging
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.metadata.cluster import DIRECTORY_LOST
from ottla.wire.codec import Message
from ottla.wire.messages.fetch import FetchResponse

SEGMENT = "/data/t-0/00000000000000000000.log"


def corrupt(broker: Any, position: int) -> None:
    byte = broker.disk.contents(SEGMENT)[position]
    broker.disk.corrupt(SEGMENT, position, bytes([byte ^ 0xFF]))


def first_difference_is_repaired(cluster: Any, node_id: int, other: int) -> bool:
    equal: bool = cluster[node_id].log_bytes() == cluster[other].log_bytes()
    return equal


def test_batch_corrupted_in_transit_is_rejected_and_fetched_again(pair: Any, caplog: pytest.LogCaptureFixture) -> None:
    tampered = []

    def tamper(to: int, response: Message) -> Message:
        if isinstance(response, FetchResponse) and not tampered:
            for topic in response.responses:
                for data in topic.partitions:
                    if data.records:
                        records = bytearray(data.records)
                        records[-1] ^= 0xFF
                        data.records = memoryview(records)
                        tampered.append(to)
        return response

    pair.tamper = tamper
    with caplog.at_level(logging.ERROR):
        responses = pair[1].produce(b"a")
        pair.settle()
        end_offset = pair[2].partition().log.log_end_offset
        pair.run(1_500)

    assert tampered == [2]
    assert end_offset == 0
    assert "node 1 sent a batch at or after offset 0 that is rejected" in caplog.text
    assert ErrorCode(responses[0].error_code) is ErrorCode.NONE
    assert first_difference_is_repaired(pair, 2, 1)
    assert pair[1].partition().corrupt_offset is None


PAYLOAD, LENGTH = 65, 10
corruptions = pytest.mark.parametrize(
    "position", [pytest.param(PAYLOAD, id="payload"), pytest.param(LENGTH, id="length")]
)


def corruption_found_by_a_follower(cluster: Any, position: int) -> None:
    """Node 1 leads a log whose second batch is corrupt on its disk; node 3, which is behind, detects it."""
    cluster[1].produce(b"a")
    cluster.run(600)
    cluster.cut(1, 3)
    cluster[1].produce(b"b", acks=1)
    cluster[1].produce(b"c", acks=1)
    cluster.settle()
    corrupt(cluster[1], len(cluster[1].log_bytes()) // 3 + position)
    cluster.heal()
    cluster.run(1_500)


@corruptions
def test_leader_does_not_serve_batches_found_corrupt(
    trio: Any, caplog: pytest.LogCaptureFixture, position: int
) -> None:
    with caplog.at_level(logging.ERROR):
        corruption_found_by_a_follower(trio, position)
    partition = trio[1].partition()
    partition.log.update_high_watermark(3)
    before, at, behind = (trio[1].fetch(offset) for offset in (0, 1, 2))

    assert trio[3].values() == [b"a"]
    assert "the batch at offset 1 on this leader's disk is corrupt" in caplog.text
    assert partition.corrupt_offset == 1
    assert (before.error_code, len(before.records or b"")) == (0, len(trio[1].log_bytes()) // 3)
    assert ErrorCode(at.error_code) is ErrorCode.CORRUPT_MESSAGE
    assert ErrorCode(behind.error_code) is ErrorCode.CORRUPT_MESSAGE


@corruptions
def test_leader_with_a_corrupt_log_hands_over_and_copies_the_records_again(
    trio: Any, caplog: pytest.LogCaptureFixture, position: int
) -> None:
    corruption_found_by_a_follower(trio, position)
    lost = [directory.id for request in trio.controller.assigned_directories for directory in request.directories]
    with caplog.at_level(logging.WARNING):
        trio.controller.change(leader=2, isr=[2, 3])
        trio.run(3_000)

    assert lost == [DIRECTORY_LOST]
    assert "truncating the corrupt log at offset 1" in caplog.text
    assert trio[1].values() == [b"a", b"b", b"c"]
    assert trio[1].log_bytes() == trio[2].log_bytes() == trio[3].log_bytes()
    assert set(trio.controller.partition().isr) == {1, 2, 3}


def test_only_in_sync_replica_keeps_its_corrupt_log(pair: Any) -> None:
    pair[1].produce(b"a")
    pair.run(600)
    pair.stop(2)
    pair.controller.fence(2)
    pair.controller.change(isr=[1])
    pair.settle()
    pair[1].produce(b"b")
    corrupt(pair[1], len(pair[1].log_bytes()) - 1)
    pair.start(2)
    pair.run(2_000)

    assert pair[1].partition().corrupt_offset == 1
    assert pair.controller.assigned_directories == []
    assert pair[2].values() == [b"a"]


def corrupted_below_the_recovery_point(cluster: Any, node_id: int) -> None:
    """Stop a broker in order, and corrupt its log below the recovery point so that it cannot be opened."""
    cluster[node_id].produce(b"a", acks=1)
    cluster[node_id].produce(b"b", acks=1)
    cluster.run(600)
    cluster[node_id].partition().log.roll(cluster.clock.wall_ms())
    cluster.stop(node_id, cleanly=True)
    disk = cluster[node_id].disk
    for path in [path for path in disk.paths() if path.startswith("/data/t-0/") and path.endswith(".snapshot")]:
        disk.remove(path)
    disk.corrupt(SEGMENT, 8, b"\0\0\0\1")


def test_follower_with_an_unreadable_log_drops_it_and_copies_it_again(
    pair: Any, caplog: pytest.LogCaptureFixture
) -> None:
    corrupted_below_the_recovery_point(pair, 1)
    pair.controller.change(leader=2, isr=[2])
    pair.settle()
    with caplog.at_level(logging.WARNING):
        pair.start(1)
        pair.run(2_000)

    assert "t-0: dropped the corrupt log; copying it again from node 2" in caplog.text
    assert pair[1].logs.offline_directories() == []
    assert pair[1].log_bytes() == pair[2].log_bytes()
    assert set(pair.controller.partition().isr) == {1, 2}


def test_leader_with_an_unreadable_log_requests_another_leader_and_keeps_the_files(pair: Any) -> None:
    corrupted_below_the_recovery_point(pair, 1)
    pair.start(1)
    pair.run(1_000)
    (response,) = pair[1].produce(b"c")
    (reported,) = pair.controller.assigned_directories[:1]

    assert ErrorCode(response.error_code) is ErrorCode.KAFKA_STORAGE_ERROR
    assert [directory.id for directory in reported.directories] == [DIRECTORY_LOST]
    assert pair[1].disk.exists(SEGMENT)


def test_failed_append_stops_the_replication_of_that_log_only(pair: Any) -> None:
    pair.controller.create_topic("u", (1, 2))
    pair.settle()
    pair[2].disk.fail_next("write", 5, path_part="t-0/")
    pair[1].produce(b"a", acks=1)
    pair.settle()

    assert pair[2].replicas.find("t", 0) is None
    assert pair[2].logs.offline_directories() == ["/data"]
