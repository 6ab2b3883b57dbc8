"""The leader's rules: commits, the in-sync set, responses of the controller; both sides of each edge."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.log.config import LogConfig
from ottla.replication.config import ReplicationConfig

LAG_MS = ReplicationConfig().lag_time_max_ms


def high_watermark(cluster: Any, node_id: int = 1) -> int:
    offset: int = cluster[node_id].partition().log.high_watermark
    return offset


# --- the high watermark


def test_high_watermark_is_the_smallest_log_end_of_the_isr(trio: Any) -> None:
    trio.cut(1, 3)
    responses = trio[1].produce(b"a")
    trio.settle()
    before = high_watermark(trio)
    trio.heal()
    trio.run(1_000)

    assert before == 0
    assert high_watermark(trio) == 1
    assert ErrorCode(responses[0].error_code) is ErrorCode.NONE


def test_dead_replica_outside_the_isr_does_not_delay_commits(trio: Any) -> None:
    trio.stop(3)
    trio.controller.fence(3)
    trio.controller.change(isr=[1, 2])
    trio.settle()
    trio[1].produce(b"a")
    trio.settle()

    assert high_watermark(trio) == 1


@pytest.mark.parametrize(
    ("late_ms", "committed"), [pytest.param(0, 0, id="at-the-lag-time"), pytest.param(1, 1, id="a-ms-past-it")]
)
def test_replica_about_to_join_delays_the_high_watermark_up_to_the_lag_time(
    trio: Any, late_ms: int, committed: int
) -> None:
    """It was caught up a moment ago and still fetches: it must not fall behind just before it joins."""
    trio.cut(1, 2)
    trio.cut(1, 3)
    partition = trio[1].partition()
    partition.isr.in_sync = (1, 2)
    trio[1].produce(b"a", acks=1)
    partition.isr.remote[2].log_end_offset = 1
    now_ms = partition.isr.remote[3].last_caught_up_ms + LAG_MS + late_ms
    partition.isr.remote[3].last_fetch_ms = now_ms
    partition.advance_high_watermark(now_ms)

    assert high_watermark(trio) == committed


@pytest.mark.parametrize(
    ("in_sync", "committed"),
    [pytest.param([1, 2], 1, id="at-the-minimum"), pytest.param([1], 0, id="below-the-minimum")],
)
def test_nothing_is_committed_below_the_minimum_of_in_sync_replicas(
    trio: Any, in_sync: list[int], committed: int
) -> None:
    for node_id in {2, 3} - set(in_sync):
        trio.stop(node_id)
        trio.controller.fence(node_id)
    trio.controller.change(isr=in_sync)
    trio.settle()
    responses = trio[1].produce(b"a", acks=1)
    trio.settle()

    assert ErrorCode(responses[0].error_code) is ErrorCode.NONE
    assert high_watermark(trio) == committed


def test_min_insync_replicas_is_capped_at_the_replica_count(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(1, config=LogConfig(min_insync_replicas=2))
    cluster.controller.create_topic("t", (1,))
    cluster.settle()
    (response,) = cluster[1].produce(b"a")

    assert ErrorCode(response.error_code) is ErrorCode.NONE
    assert high_watermark(cluster) == 1


# --- acks


@pytest.mark.parametrize(
    ("acks", "in_sync", "code"),
    [
        pytest.param(-1, [1, 2], ErrorCode.NONE, id="all-at-the-minimum"),
        pytest.param(-1, [1], ErrorCode.NOT_ENOUGH_REPLICAS, id="all-below-the-minimum"),
        pytest.param(1, [1], ErrorCode.NONE, id="one-below-the-minimum"),
    ],
)
def test_acks_all_needs_the_minimum_of_in_sync_replicas(
    trio: Any, acks: int, in_sync: list[int], code: ErrorCode
) -> None:
    for node_id in {2, 3} - set(in_sync):
        trio.stop(node_id)
        trio.controller.fence(node_id)
    trio.controller.change(isr=in_sync)
    trio.settle()
    responses = trio[1].produce(b"a", acks=acks)
    trio.settle()

    assert ErrorCode(responses[0].error_code) is code


def test_acks_zero_and_one_do_not_wait_for_followers(trio: Any) -> None:
    trio.cut(1, 2)
    trio.cut(1, 3)

    assert trio[1].produce(b"a", acks=0) == [None]
    assert ErrorCode(trio[1].produce(b"b", acks=1)[0].error_code) is ErrorCode.NONE
    assert trio[1].produce(b"c", acks=-1) == []


def test_commit_below_the_minimum_reports_not_enough_replicas_after_append(trio: Any) -> None:
    """The append was allowed; meanwhile a replica left the in-sync set, which is below the minimum now."""
    trio.cut(1, 2)
    trio.cut(1, 3)
    responses = trio[1].produce(b"a")
    partition = trio[1].partition()
    partition.log.update_high_watermark(1)
    for node_id in (2, 3):
        trio.controller.fence(node_id)
    trio.controller.change(isr=[1])
    trio.settle()

    assert ErrorCode(responses[0].error_code) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_acks_all_fails_after_its_timeout(trio: Any) -> None:
    trio.cut(1, 2)
    trio.cut(1, 3)
    responses = trio[1].produce(b"a", timeout_ms=2_000)
    trio.run(1_950)
    early = list(responses)
    trio.run(50)

    assert early == []
    assert ErrorCode(responses[0].error_code) is ErrorCode.REQUEST_TIMED_OUT


# --- the in-sync set shrinks


@pytest.mark.parametrize(
    ("silence_max_ms", "earliest_ms", "latest_ms"),
    [
        pytest.param(0, LAG_MS - 500, LAG_MS + LAG_MS // 2, id="after-the-lag-time"),
        pytest.param(1_000, 1_000, 1_600, id="when-it-is-silent"),
    ],
)
def test_follower_that_does_not_fetch_leaves_the_isr(
    new_cluster: Callable[..., Any], silence_max_ms: int, earliest_ms: int, latest_ms: int
) -> None:
    cluster = new_cluster(3, replication=ReplicationConfig(follower_silence_max_ms=silence_max_ms))
    cluster.controller.create_topic("t", (1, 2, 3))
    cluster.run(1_000)
    cluster.cut(1, 3)
    responses = cluster[1].produce(b"a", timeout_ms=120_000)
    waited_ms = cluster.shrink_time_ms(3 * LAG_MS)
    cluster.settle()

    assert waited_ms is not None
    assert earliest_ms < waited_ms <= latest_ms
    assert cluster.controller.partition().isr == (1, 2)
    assert ErrorCode(responses[0].error_code) is ErrorCode.NONE


def test_caught_up_follower_stays_in_sync_however_long_it_is_down(trio: Any) -> None:
    trio[1].produce(b"a")
    trio.run(1_000)
    trio.cut(1, 3)

    assert trio.shrink_time_ms(3 * LAG_MS) is None


@pytest.mark.parametrize(
    ("late_ms", "leaves"), [pytest.param(0, False, id="at-the-limit"), pytest.param(1, True, id="a-ms-past-it")]
)
def test_follower_leaves_the_isr_one_millisecond_past_the_lag_time(trio: Any, late_ms: int, leaves: bool) -> None:
    trio.cut(1, 3)
    trio[1].produce(b"a", acks=1)
    trio.settle()
    partition = trio[1].partition()
    caught_up_ms = partition.isr.remote[3].last_caught_up_ms

    change = partition.isr.on_lag_check(
        end_offset=partition.log.log_end_offset, now_ms=caught_up_ms + LAG_MS + late_ms, own_broker_epoch=1
    )

    assert (change is not None) is leaves
    if change is not None:
        assert change.isr == (1, 2)
        assert partition.isr.maximal == (1, 2, 3)


def test_many_lagging_partitions_leave_in_one_request(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(2)
    cluster.controller.create_topic("t", *[(1, 2)] * 20)
    cluster.run(500)
    cluster.cut(1, 2)
    for index in range(20):
        cluster[1].produce(b"a", index=index, acks=1)
    cluster.run(2 * LAG_MS)

    (request,) = cluster.controller.requests
    assert [len(topic.partitions) for topic in request.topics] == [20]
    assert all(cluster.controller.partition(index).isr == (1,) for index in range(20))


# --- the in-sync set grows


def remove_from_isr(cluster: Any, node_id: int) -> None:
    """Take a follower out of sync, and let it be a record behind."""
    cluster.run(500)
    cluster.stop(node_id)
    cluster.controller.fence(node_id)
    cluster.controller.change(isr=[broker for broker in cluster.controller.partition().isr if broker != node_id])
    cluster.settle()
    cluster[1].produce(b"missed")
    cluster.settle()


def test_follower_joins_the_isr_once_it_has_all_committed_records(trio: Any) -> None:
    remove_from_isr(trio, 3)
    trio.start(3)
    trio.run(1_500)

    (request,) = trio.controller.requests
    (wanted,) = request.topics[0].partitions
    assert [(state.broker_id, state.broker_epoch) for state in wanted.new_isr_with_epochs] == [
        (1, trio[1].broker_epoch),
        (2, trio[2].broker_epoch),
        (3, trio[3].broker_epoch),
    ]
    assert trio.controller.partition().isr == (1, 2, 3)


@pytest.mark.parametrize("state", ["fenced", "shutting-down"])
def test_fenced_or_stopping_broker_is_not_proposed(trio: Any, state: str) -> None:
    remove_from_isr(trio, 3)
    trio.start(3)
    if state == "fenced":
        trio.controller.fence(3)
    else:
        trio.controller.begin_shutdown(3)
    trio.run(3_000)
    while_so = list(trio.controller.requests)
    trio.controller.register(3)
    trio[3].broker_epoch = trio.controller.image.cluster.brokers[3].epoch
    trio.cut(1, 3)
    trio.settle()
    trio.heal()
    trio.run(2_000)

    assert trio[3].values() == [b"missed"]
    assert while_so == []
    assert trio.controller.partition().isr == (1, 2, 3)


def test_broker_fenced_while_catching_up_joins_when_it_is_unfenced(trio: Any) -> None:
    remove_from_isr(trio, 3)
    trio.start(3)
    trio.controller.fence(3)
    trio.run(3_000)
    trio.controller.unfence(3)
    trio.settle()

    assert trio.controller.partition().isr == (1, 2, 3)


def test_fetches_of_an_earlier_incarnation_do_not_count(trio: Any) -> None:
    remove_from_isr(trio, 3)
    trio.start(3)
    trio.controller.register(3)
    trio.run(3_000)

    assert trio.controller.requests == []
    assert trio.controller.partition().isr == (1, 2)


def test_records_wait_for_a_replica_with_a_pending_expansion(trio: Any) -> None:
    remove_from_isr(trio, 3)
    trio.controller.is_reachable = False
    trio.start(3)
    trio.run(2_000)
    partition = trio[1].partition()
    trio.cut(1, 3)
    responses = trio[1].produce(b"b")
    trio.settle()

    assert partition.isr.in_sync == (1, 2)
    assert partition.isr.maximal == (1, 2, 3)
    assert responses == []


def test_second_follower_joins_after_the_first_change_is_committed(trio: Any) -> None:
    trio.run(500)
    for node_id in (2, 3):
        trio.stop(node_id)
        trio.controller.fence(node_id)
    trio.controller.change(isr=[1])
    trio.settle()
    trio[1].produce(b"a", acks=1)
    for node_id in (2, 3):
        trio.start(node_id)
    trio.run(1_500)

    assert [len(request.topics[0].partitions[0].new_isr_with_epochs) for request in trio.controller.requests] == [2, 3]
    assert set(trio.controller.partition().isr) == {1, 2, 3}


# --- responses of the controller


@pytest.mark.parametrize(
    ("code", "is_dropped", "is_retried"),
    [
        pytest.param(ErrorCode.INELIGIBLE_REPLICA, True, True, id="ineligible-replica"),
        pytest.param(ErrorCode.OPERATION_NOT_ATTEMPTED, True, True, id="operation-not-attempted"),
        pytest.param(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False, False, id="unknown-topic-or-partition"),
        pytest.param(ErrorCode.UNKNOWN_TOPIC_ID, False, False, id="unknown-topic-id"),
        pytest.param(ErrorCode.FENCED_LEADER_EPOCH, False, False, id="fenced-leader-epoch"),
        pytest.param(ErrorCode.INVALID_UPDATE_VERSION, False, False, id="invalid-update-version"),
        pytest.param(ErrorCode.INVALID_REQUEST, False, False, id="invalid-request"),
        pytest.param(ErrorCode.NEW_LEADER_ELECTED, False, False, id="new-leader-elected"),
        pytest.param(ErrorCode.UNKNOWN_SERVER_ERROR, False, True, id="unknown-server-error"),
    ],
)
def test_rejected_change_is_dropped_kept_or_retried_by_error_code(
    trio: Any, code: ErrorCode, is_dropped: bool, is_retried: bool
) -> None:
    remove_from_isr(trio, 3)
    trio.controller.rejects_with[0] = code
    trio.start(3)
    while not trio.controller.requests:
        trio.settle()
        trio.clock.advance(10)
    trio.settle()
    partition = trio[1].partition()
    is_pending = partition.isr.pending is not None
    trio.run(2_000)

    assert is_pending is not is_dropped
    assert (len(trio.controller.requests) > 1) is is_retried
    assert trio.controller.partition().isr == ((1, 2, 3) if is_retried else (1, 2))


def test_change_that_awaits_metadata_continues_when_it_arrives(trio: Any) -> None:
    remove_from_isr(trio, 3)
    trio.controller.rejects_with[0] = ErrorCode.INVALID_UPDATE_VERSION
    trio.start(3)
    trio.run(2_000)
    trio.controller.change(isr=[1, 2])
    trio.run(2_000)

    assert trio.controller.partition().isr == (1, 2, 3)


def test_change_is_retried_until_there_is_a_controller(trio: Any) -> None:
    remove_from_isr(trio, 3)
    trio.controller.is_reachable = False
    trio.start(3)
    trio.run(2_000)
    proposed = len(trio.controller.requests)
    trio.controller.is_reachable = True
    trio.run(200)

    assert proposed > 5
    assert trio.controller.partition().isr == (1, 2, 3)


def test_older_metadata_does_not_revert_the_controller_s_response(trio: Any) -> None:
    remove_from_isr(trio, 3)
    trio.start(3)
    trio.run(1_500)
    partition = trio[1].partition()
    registration = trio.controller.partition()
    partition.lead(registration._replace(isr=(1,), partition_epoch=registration.partition_epoch - 1), now_ms=0)

    assert partition.isr.in_sync == (1, 2, 3)


def test_fetch_of_an_unassigned_follower_is_rejected(trio: Any) -> None:
    partition = trio[1].partition()
    for epoch, code in ((-1, ErrorCode.NOT_LEADER_OR_FOLLOWER), (0, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        with pytest.raises(Exception, match=code.name):
            partition.remote_replica(9, -1, epoch)
