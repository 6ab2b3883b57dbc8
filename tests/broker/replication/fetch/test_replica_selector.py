"""Reading from followers: the preferred replica, and the offsets that a follower serves."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.config.validation import RACK_AWARE_SELECTOR
from ottla.errors import ErrorCode
from ottla.replication.config import ReplicationConfig
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

LATEST, EARLIEST = -1, -2
CONSUMER, DEBUGGER = -1, -2


@pytest.fixture
def racks(new_cluster: Callable[..., Any]) -> Any:
    """Three racks, the leader in a; five records that every replica knows to be committed."""
    cluster = new_cluster(
        3, replication=ReplicationConfig(selector_class=RACK_AWARE_SELECTOR), racks={1: "a", 2: "b", 3: "b"}
    )
    cluster.controller.create_topic("t", (1, 2, 3))
    cluster.settle()
    for number in range(5):
        cluster[1].produce(b"%d" % number)
        cluster.settle()
    cluster.run(1_100)
    return cluster


@pytest.mark.parametrize(
    ("rack", "preferred"),
    [
        pytest.param("", -1, id="no-rack"),
        pytest.param("a", -1, id="the-leaders-rack"),
        pytest.param("b", 3, id="two-equals-the-larger-id"),
        pytest.param("c", -1, id="an-empty-rack"),
    ],
)
def test_consumer_is_redirected_to_a_replica_in_its_rack(racks: Any, rack: str, preferred: int) -> None:
    data = racks[1].fetch(0, rack=rack)

    assert data.preferred_read_replica == preferred
    assert (len(data.records) == 0) is (preferred >= 0)
    assert data.high_watermark == 5


def test_consumer_is_not_redirected_without_a_selector(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(2, racks={1: "a", 2: "b"})
    cluster.controller.create_topic("t", (1, 2))
    cluster.settle()
    cluster[1].produce(b"a")
    cluster.settle()

    assert cluster[1].fetch(0, rack="b").preferred_read_replica == -1


def test_replica_that_is_out_of_sync_or_fenced_is_not_preferred(racks: Any) -> None:
    racks.stop(3)
    racks.controller.fence(3)
    racks.controller.change(isr=[1, 2])
    racks.settle()

    assert racks[1].fetch(0, rack="b").preferred_read_replica == 2


def test_replica_that_is_behind_the_fetch_offset_is_not_preferred(racks: Any) -> None:
    racks.cut(1, 3)
    racks.cut(1, 2)
    racks[1].produce(b"new", acks=1)
    racks.settle()

    assert racks[1].fetch(5, rack="b").preferred_read_replica == 3
    assert racks[1].fetch(6, rack="b").preferred_read_replica == -1


def test_replica_with_the_longest_log_in_the_rack_is_preferred(racks: Any) -> None:
    racks.cut(1, 3)
    racks[1].produce(b"new", acks=1)
    racks.settle()

    assert racks[1].fetch(5, rack="b").preferred_read_replica == 2


def test_follower_serves_records_below_its_high_watermark(racks: Any) -> None:
    racks[1].produce(b"not known yet")
    racks.settle()
    data = racks[2].fetch(0)

    assert data.error_code == 0
    assert data.high_watermark == 5
    assert len(data.records) < len(racks[2].log_bytes())


@pytest.mark.parametrize(
    ("version", "epoch", "code"),
    [
        pytest.param(11, -1, ErrorCode.NONE, id="from-v11-on"),
        pytest.param(10, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER, id="before-v11"),
        pytest.param(11, 0, ErrorCode.NONE, id="same-epoch"),
        pytest.param(11, 1, ErrorCode.UNKNOWN_LEADER_EPOCH, id="newer-epoch"),
    ],
)
def test_followers_serve_consumers_from_v11_on(racks: Any, version: int, epoch: int, code: ErrorCode) -> None:
    assert ErrorCode(racks[2].fetch(0, version=version, current_leader_epoch=epoch).error_code) is code


def test_fetch_with_an_older_leader_epoch_is_fenced(racks: Any) -> None:
    racks.controller.change(leader=2)
    racks.settle()

    for node_id in (1, 2):
        data = racks[node_id].fetch(0, current_leader_epoch=0)
        assert ErrorCode(data.error_code) is ErrorCode.FENCED_LEADER_EPOCH


def test_offset_beyond_the_follower_s_log_is_out_of_range(racks: Any) -> None:
    racks.cut(1, 2)
    racks[1].produce(b"new", acks=1)
    racks.settle()

    assert ErrorCode(racks[2].fetch(5).error_code) is ErrorCode.NONE
    assert ErrorCode(racks[2].fetch(6).error_code) is ErrorCode.OFFSET_OUT_OF_RANGE


# --- ListOffsets and OffsetForLeaderEpoch


def offset_of(broker: Any, timestamp: int, *, replica_id: int = CONSUMER, version: int = 10) -> tuple[ErrorCode, int]:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topics = [ListOffsetsTopic(name="t", partitions=[wanted])]
    (response,) = broker.ask(ListOffsetsRequest(replica_id=replica_id, topics=topics), version)
    found = response.topics[0].partitions[0]
    return ErrorCode(found.error_code), found.offset


def test_list_offsets_returns_committed_ends_to_consumers_and_log_ends_to_replicas(trio: Any) -> None:
    trio[1].produce(b"a")
    trio.settle()
    trio.cut(1, 3)
    trio[1].produce(b"b", acks=1)
    trio.settle()

    assert offset_of(trio[1], LATEST) == (ErrorCode.NONE, 1)
    assert offset_of(trio[1], LATEST, replica_id=3) == (ErrorCode.NONE, 2)
    assert offset_of(trio[1], LATEST, replica_id=DEBUGGER) == (ErrorCode.NONE, 2)


@pytest.mark.parametrize(
    ("replica_id", "code"),
    [
        pytest.param(CONSUMER, ErrorCode.NOT_LEADER_OR_FOLLOWER, id="consumer"),
        pytest.param(3, ErrorCode.NOT_LEADER_OR_FOLLOWER, id="follower"),
        pytest.param(DEBUGGER, ErrorCode.NONE, id="debugger"),
    ],
)
def test_only_debuggers_may_list_offsets_of_a_follower(trio: Any, replica_id: int, code: ErrorCode) -> None:
    assert offset_of(trio[2], EARLIEST, replica_id=replica_id)[0] is code


@pytest.mark.parametrize(
    ("version", "code"),
    [
        pytest.param(5, ErrorCode.OFFSET_NOT_AVAILABLE, id="v5"),
        pytest.param(4, ErrorCode.LEADER_NOT_AVAILABLE, id="v4"),
    ],
)
def test_new_leader_returns_no_latest_offset_before_its_first_commit(trio: Any, version: int, code: ErrorCode) -> None:
    trio[1].produce(b"a")
    trio.settle()
    trio.cut(2, 3)
    trio.stop(1)
    trio.controller.fence(1)
    trio.controller.change(leader=2, isr=[2, 3])
    trio.settle()
    while_behind = offset_of(trio[2], LATEST, version=version)
    of_time = offset_of(trio[2], 0, version=version)
    earliest = offset_of(trio[2], EARLIEST, version=version)
    trio.heal()
    trio.run(1_500)

    assert while_behind[0] is of_time[0] is code
    assert earliest == (ErrorCode.NONE, 0)
    assert offset_of(trio[2], LATEST, version=version) == (ErrorCode.NONE, 1)


def end_of_epoch(broker: Any, epoch: int, current: int = -1) -> tuple[ErrorCode, int, int]:
    wanted = OffsetForLeaderPartition(partition=0, leader_epoch=epoch, current_leader_epoch=current)
    (response,) = broker.ask(
        OffsetForLeaderEpochRequest(replica_id=-1, topics=[OffsetForLeaderTopic(topic="t", partitions=[wanted])]),
        4,
    )
    end = response.topics[0].partitions[0]
    return ErrorCode(end.error_code), end.leader_epoch, end.end_offset


def test_leader_knows_the_end_of_every_epoch_also_of_its_own_without_records(pair: Any) -> None:
    pair[1].produce(b"a")
    pair.settle()
    for _ in range(3):
        pair.controller.change(leader=2)
        pair.settle()

    assert end_of_epoch(pair[2], 0) == (ErrorCode.NONE, 0, 1)
    assert end_of_epoch(pair[2], 2) == (ErrorCode.NONE, 0, 1)
    assert end_of_epoch(pair[2], 3) == (ErrorCode.NONE, 3, 1)
    assert end_of_epoch(pair[2], 4) == (ErrorCode.NONE, -1, -1)
    assert end_of_epoch(pair[1], 0)[0] is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert end_of_epoch(pair[2], 0, current=2)[0] is ErrorCode.FENCED_LEADER_EPOCH


def test_leader_without_records_ends_older_epochs_at_its_epoch_start(pair: Any) -> None:
    pair.controller.change(leader=1)
    pair.settle()

    assert end_of_epoch(pair[1], 0) == (ErrorCode.NONE, 0, 0)
