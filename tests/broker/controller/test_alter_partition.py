"""AlterPartition: a proposal is accepted if it has the newest epochs and eligible replicas."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.types import Uuid

RECOVERED, RECOVERING = 0, 1


@pytest.fixture
def cluster(new_cluster: Callable[..., Any]) -> Any:
    """Brokers 1, 2 and 3; the topic t on all of them, led by 1, with 1 and 2 in sync."""
    cluster = new_cluster(1, 2, 3)
    cluster.assign("t", [1, 2, 3])
    cluster.alter_partition("t", [1, 2])
    return cluster


def test_response_has_the_current_partition(cluster: Any) -> None:
    before = cluster.partition("t")

    response = cluster.alter_partition("t", [1, 2, 3])

    after = cluster.partition("t")
    assert response.error_code == ErrorCode.NONE
    assert (response.leader_id, response.isr, response.leader_recovery_state) == (1, [1, 2, 3], RECOVERED)
    assert (response.leader_epoch, response.partition_epoch) == (before.leader_epoch, before.partition_epoch + 1)
    assert (after.isr, after.leader_epoch, after.partition_epoch) == ((1, 2, 3), 0, 2)


def test_unchanged_isr_writes_no_record(cluster: Any) -> None:
    before = cluster.partition("t")

    response = cluster.alter_partition("t", [1, 2])

    assert (response.error_code, response.partition_epoch) == (ErrorCode.NONE, before.partition_epoch)
    assert cluster.partition("t") == before


@pytest.mark.parametrize(
    ("overrides", "code"),
    [
        pytest.param({"partition": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="no-such-partition"),
        pytest.param({"topic_id": Uuid(b"?" * 16)}, ErrorCode.UNKNOWN_TOPIC_ID, id="no-such-topic"),
        pytest.param({"leader_epoch": 1}, ErrorCode.NOT_CONTROLLER, id="a-leader-epoch-to-come"),
        pytest.param({"partition_epoch": 2}, ErrorCode.NOT_CONTROLLER, id="a-partition-epoch-to-come"),
        pytest.param({"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH, id="a-former-leader-epoch"),
        pytest.param({"partition_epoch": 0}, ErrorCode.INVALID_UPDATE_VERSION, id="a-former-partition-epoch"),
        pytest.param({"proposer": 2}, ErrorCode.INVALID_REQUEST, id="not-the-leader"),
        pytest.param({"recovery": RECOVERING}, ErrorCode.INVALID_REQUEST, id="recovered-once"),
        pytest.param({"recovery": 7}, ErrorCode.INVALID_REQUEST, id="no-such-state"),
        pytest.param({"epochs": {3: 1}}, ErrorCode.INELIGIBLE_REPLICA, id="another-incarnation"),
        pytest.param({"epochs": {3: -1}}, ErrorCode.NONE, id="any-incarnation"),
        pytest.param({}, ErrorCode.NONE, id="as-it-should-be"),
    ],
)
def test_invalid_proposal_is_rejected_with_its_error(cluster: Any, overrides: dict[str, Any], code: ErrorCode) -> None:
    before = cluster.partition("t")

    assert cluster.alter_partition("t", [1, 2, 3], **overrides).error_code == code

    assert (cluster.partition("t") == before) == (code is not ErrorCode.NONE)


def test_version_2_has_no_broker_epochs(cluster: Any) -> None:
    assert cluster.alter_partition("t", [1, 2, 3], version=2).error_code == ErrorCode.NONE
    assert cluster.partition("t").isr == (1, 2, 3)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    "isr",
    [
        pytest.param([], id="empty"),
        pytest.param([2, 3], id="without-the-leader"),
        pytest.param([1, 2, 2], id="twice"),
        pytest.param([1, 4], id="not-a-replica"),
        pytest.param([1, 2, 3, 3], id="more-than-there-are-replicas"),
    ],
)
def test_invalid_isr_is_rejected(cluster: Any, isr: list[int], version: int) -> None:
    cluster.add_brokers(4)

    assert cluster.alter_partition("t", isr, version=version).error_code == ErrorCode.INVALID_REQUEST


def test_request_with_a_stale_broker_epoch_is_rejected_as_a_whole(cluster: Any) -> None:
    response = cluster.alter_partition("t", [1, 2, 3], broker_epoch=cluster.epoch_of(1) - 1)

    assert (response.error_code, response.topics) == (ErrorCode.STALE_BROKER_EPOCH, [])


def test_fenced_or_stopping_replicas_cannot_join_the_isr(cluster: Any) -> None:
    cluster.fence(3)
    fenced = cluster.alter_partition("t", [1, 2, 3]).error_code
    cluster.unfence(3)
    cluster.assign("led", [3, 1])
    cluster.ask(cluster.heartbeat(3, want_shut_down=True))
    shutting_down = cluster.alter_partition("t", [1, 2, 3]).error_code

    assert cluster.broker_of(3).in_controlled_shutdown
    assert (fenced, shutting_down) == (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.INELIGIBLE_REPLICA)


def test_replica_in_a_failed_directory_cannot_join_the_isr(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(1, 2)
    cluster.add_brokers(3, directories=2)
    kept, failed = cluster.broker_of(3).directories
    for name, directory in ("kept", kept), ("failed", failed):
        cluster.assign(name, [1, 2, 3])
        cluster.put(name, 3, directory)
        cluster.alter_partition(name, [1, 2])
    cluster.ask(cluster.heartbeat(3, offline_log_dirs=[failed]))

    assert cluster.alter_partition("failed", [1, 2, 3]).error_code == ErrorCode.INELIGIBLE_REPLICA
    assert cluster.alter_partition("failed", [1]).error_code == ErrorCode.NONE
    assert cluster.alter_partition("kept", [1, 2, 3]).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("isr", "overrides", "code"),
    [
        pytest.param(
            [1, 2], {"proposer": 2, "partition_epoch": 3}, ErrorCode.NOT_CONTROLLER, id="newer-than-the-controller"
        ),
        pytest.param([1, 3], {"proposer": 2, "partition_epoch": 1}, ErrorCode.INVALID_REQUEST, id="not-the-leader"),
        pytest.param([1, 3], {"partition_epoch": 1}, ErrorCode.INVALID_UPDATE_VERSION, id="is-behind"),
        pytest.param([1, 3, 3], {}, ErrorCode.INVALID_REQUEST, id="invalid"),
        pytest.param([2, 3], {}, ErrorCode.INVALID_REQUEST, id="leaves-itself-out"),
        pytest.param([1, 3], {"recovery": RECOVERING}, ErrorCode.INVALID_REQUEST, id="recovers-with-others"),
        pytest.param([1, 3], {"epochs": {3: -1}}, ErrorCode.INELIGIBLE_REPLICA, id="adds-a-fenced-broker"),
    ],
)
def test_first_of_several_errors_is_reported(
    cluster: Any, isr: list[int], overrides: dict[str, Any], code: ErrorCode
) -> None:
    """Broker 3 is fenced in each; the order is that of a Kafka 4.3 cluster of three nodes."""
    cluster.alter_partition("t", [2, 1])
    cluster.fence(3)
    assert cluster.partition("t").partition_epoch == 2

    assert cluster.alter_partition("t", isr, **overrides).error_code == code


def test_another_order_of_the_isr_is_a_change(cluster: Any) -> None:
    response = cluster.alter_partition("t", [2, 1])

    assert (response.error_code, response.isr, response.partition_epoch) == (ErrorCode.NONE, [2, 1], 2)


def test_recovering_leader_is_alone_in_the_isr_until_it_has_recovered(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(1, 2, features={"eligible.leader.replicas.version": 0})
    cluster.assign("t", [1, 2], **{"unclean.leader.election.enable": "true"})
    cluster.alter_partition("t", [1])
    cluster.fence(1)
    cluster.unfence(1)
    assert cluster.partition("t").leader_recovery_state == RECOVERING

    early = cluster.alter_partition("t", [2, 1], recovery=RECOVERING)
    still = cluster.alter_partition("t", [2], recovery=RECOVERING)
    done = cluster.alter_partition("t", [2, 1], recovery=RECOVERED)

    assert (early.error_code, still.error_code, done.error_code) == (ErrorCode.INVALID_REQUEST, 0, 0)
    assert (still.leader_recovery_state, done.leader_recovery_state) == (RECOVERING, RECOVERED)


def test_shrink_bumps_the_leader_epoch_below_metadata_version_3_6(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(1, 2, metadata_version=11)
    cluster.assign("t", [1, 2])

    shrunk = cluster.alter_partition("t", [1])
    grown = cluster.alter_partition("t", [1, 2])

    assert (shrunk.leader_epoch, grown.leader_epoch) == (1, 1)
    assert (shrunk.partition_epoch, grown.partition_epoch) == (1, 2)
