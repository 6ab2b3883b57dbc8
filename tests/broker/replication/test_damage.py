"""Bytes that are not what was written: refused by followers, no longer served by leaders, dropped and copied anew."""

import logging
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.metadata.cluster import DIRECTORY_LOST
from ottla.wire.codec import Message
from ottla.wire.messages.fetch import FetchResponse

SEGMENT = "/data/t-0/00000000000000000000.log"


def damage(broker: Any, position: int) -> None:
    byte = broker.disk.contents(SEGMENT)[position]
    broker.disk.corrupt(SEGMENT, position, bytes([byte ^ 0xFF]))


def first_difference_is_repaired(cluster: Any, node_id: int, other: int) -> bool:
    equal: bool = cluster[node_id].log_bytes() == cluster[other].log_bytes()
    return equal


def test_a_batch_that_the_wire_damaged_is_refused_and_asked_for_again(
    pair: Any, caplog: pytest.LogCaptureFixture
) -> None:
    tampered = []

    def tamper(to: int, answer: Message) -> Message:
        if isinstance(answer, FetchResponse) and not tampered:
            for topic in answer.responses:
                for data in topic.partitions:
                    if data.records:
                        records = bytearray(data.records)
                        records[-1] ^= 0xFF
                        data.records = memoryview(records)
                        tampered.append(to)
        return answer

    pair.tamper = tamper
    with caplog.at_level(logging.ERROR):
        answers = pair[1].produce(b"a")
        pair.settle()
        refused = pair[2].partition().log.log_end_offset
        pair.run(1_500)

    assert tampered == [2]
    assert refused == 0
    assert "node 1 sent a batch at or after offset 0 that is refused" in caplog.text
    assert ErrorCode(answers[0].error_code) is ErrorCode.NONE
    assert first_difference_is_repaired(pair, 2, 1)
    assert pair[1].partition().damaged_offset is None


PAYLOAD, LENGTH = 65, 10
damages = pytest.mark.parametrize("position", [pytest.param(PAYLOAD, id="payload"), pytest.param(LENGTH, id="length")])


def damage_found_by_a_follower(cluster: Any, position: int) -> None:
    """Node 1 leads a log whose second batch is damaged on its disk; node 3, which is behind, finds out."""
    cluster[1].produce(b"a")
    cluster.run(600)
    cluster.cut(1, 3)
    cluster[1].produce(b"b", acks=1)
    cluster[1].produce(b"c", acks=1)
    cluster.settle()
    damage(cluster[1], len(cluster[1].log_bytes()) // 3 + position)
    cluster.heal()
    cluster.run(1_500)


@damages
def test_a_leader_serves_nothing_that_it_has_found_damaged(
    trio: Any, caplog: pytest.LogCaptureFixture, position: int
) -> None:
    with caplog.at_level(logging.ERROR):
        damage_found_by_a_follower(trio, position)
    partition = trio[1].partition()
    partition.log.update_high_watermark(3)
    before, at, behind = (trio[1].fetch(offset) for offset in (0, 1, 2))

    assert trio[3].values() == [b"a"]
    assert "the batch at offset 1 on this leader's disk is damaged" in caplog.text
    assert partition.damaged_offset == 1
    assert (before.error_code, len(before.records or b"")) == (0, len(trio[1].log_bytes()) // 3)
    assert ErrorCode(at.error_code) is ErrorCode.CORRUPT_MESSAGE
    assert ErrorCode(behind.error_code) is ErrorCode.CORRUPT_MESSAGE


@damages
def test_a_damaged_leader_hands_over_and_copies_what_it_lost(
    trio: Any, caplog: pytest.LogCaptureFixture, position: int
) -> None:
    damage_found_by_a_follower(trio, position)
    lost = [directory.id for request in trio.controller.assigned_directories for directory in request.directories]
    with caplog.at_level(logging.WARNING):
        trio.controller.change(leader=2, isr=[2, 3])
        trio.run(3_000)

    assert lost == [DIRECTORY_LOST]
    assert "dropping the damaged log from offset 1 on" in caplog.text
    assert trio[1].values() == [b"a", b"b", b"c"]
    assert trio[1].log_bytes() == trio[2].log_bytes() == trio[3].log_bytes()
    assert set(trio.controller.partition().isr) == {1, 2, 3}


def test_the_only_replica_in_sync_keeps_what_it_has(pair: Any) -> None:
    pair[1].produce(b"a")
    pair.run(600)
    pair.stop(2)
    pair.controller.fence(2)
    pair.controller.change(isr=[1])
    pair.settle()
    pair[1].produce(b"b")
    damage(pair[1], len(pair[1].log_bytes()) - 1)
    pair.start(2)
    pair.run(2_000)

    assert pair[1].partition().damaged_offset == 1
    assert pair.controller.assigned_directories == []
    assert pair[2].values() == [b"a"]


def damaged_below_the_recovery_point(cluster: Any, node_id: int) -> None:
    """Stop a broker in order, and damage what it has vouched for so that its log cannot be opened."""
    cluster[node_id].produce(b"a", acks=1)
    cluster[node_id].produce(b"b", acks=1)
    cluster.run(600)
    cluster[node_id].partition().log.roll(cluster.clock.wall_ms())
    cluster.stop(node_id, cleanly=True)
    disk = cluster[node_id].disk
    for path in [path for path in disk.paths() if path.startswith("/data/t-0/") and path.endswith(".snapshot")]:
        disk.remove(path)
    disk.corrupt(SEGMENT, 8, b"\0\0\0\1")


def test_a_follower_that_cannot_open_its_log_drops_it_and_copies_it_anew(
    pair: Any, caplog: pytest.LogCaptureFixture
) -> None:
    damaged_below_the_recovery_point(pair, 1)
    pair.controller.change(leader=2, isr=[2])
    pair.settle()
    with caplog.at_level(logging.WARNING):
        pair.start(1)
        pair.run(2_000)

    assert "t-0: dropped the damaged log; copying it anew from node 2" in caplog.text
    assert pair[1].logs.offline_directories() == []
    assert pair[1].log_bytes() == pair[2].log_bytes()
    assert set(pair.controller.partition().isr) == {1, 2}


def test_a_leader_that_cannot_open_its_log_asks_for_another_leader_and_keeps_the_files(pair: Any) -> None:
    damaged_below_the_recovery_point(pair, 1)
    pair.start(1)
    pair.run(1_000)
    (answer,) = pair[1].produce(b"c")
    (told,) = pair.controller.assigned_directories[:1]

    assert ErrorCode(answer.error_code) is ErrorCode.KAFKA_STORAGE_ERROR
    assert [directory.id for directory in told.directories] == [DIRECTORY_LOST]
    assert pair[1].disk.exists(SEGMENT)


def test_a_disk_that_refuses_an_append_ends_the_copying_of_that_log_only(pair: Any) -> None:
    pair.controller.create_topic("u", (1, 2))
    pair.settle()
    pair[2].disk.fail_next("write", 5, path_part="t-0/")
    pair[1].produce(b"a", acks=1)
    pair.settle()

    assert pair[2].replicas.find("t", 0) is None
    assert pair[2].logs.offline_directories() == ["/data"]
