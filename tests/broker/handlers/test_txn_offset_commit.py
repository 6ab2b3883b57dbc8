"""TxnOffsetCommit at its handler: partitions that do not exist, permissions, very many partitions, versions.

Errors of members and generations are in the recorded scenarios of the groups.
"""

from typing import Any

import pytest

from ottla.coordinator.transactions import TransactionalProducer, Verification
from ottla.errors import ErrorCode
from ottla.groups.log import decode
from ottla.purgatory import Delayed
from ottla.types import ZERO_UUID
from ottla.wire.acl_codes import Operation, ResourceType
from ottla.wire.messages.group_log import OffsetCommitValue
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

Errors = dict[tuple[str, int], ErrorCode]


def send(node: Any, version: int, topics: dict[str, list[int]], *, group: str = "g") -> Delayed[Any]:
    request = TxnOffsetCommitRequest(
        transactional_id="payments",
        group_id=group,
        producer_id=9,
        producer_epoch=3,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[
                    TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=5) for index in partitions
                ],
            )
            for name, partitions in topics.items()
        ],
    )
    return node.call(request, version)


def errors_of(response: Any) -> Errors:
    names = [topic.name for topic in response.topics]
    assert len(set(names)) == len(names), "a topic has two results"
    return {
        (topic.name, partition.partition_index): ErrorCode(partition.error_code)
        for topic in response.topics
        for partition in topic.partitions
    }


def commit(node: Any, version: int, topics: dict[str, list[int]], *, group: str = "g") -> Errors:
    return errors_of(send(node, version, topics, group=group).value)


@pytest.mark.parametrize("version", range(6))
def test_partitions_that_exist_are_stored(group_node: Any, version: int) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    assert commit(group_node, version, {"t": [0, 1, 99, -1], "nothere": [0]}) == {
        ("t", 0): ErrorCode.NONE,
        ("t", 1): ErrorCode.NONE,
        ("t", 99): unknown,
        ("t", -1): unknown,
        ("nothere", 0): unknown,
    }
    assert group_node.offsets() == {}
    assert [producer for _, producer, _ in group_node.log.verified] == [TransactionalProducer("payments", 9, 3)]
    assert [api_version for *_, api_version in group_node.log.verified] == [version]


def test_log_record_has_no_topic_id(group_node: Any) -> None:
    commit(group_node, 5, {"t": [1]})

    (record,) = group_node.log.records()
    stored = decode(record.key, record.value)
    assert stored is not None
    assert isinstance(stored.value, OffsetCommitValue)
    assert stored.value.topic_id == ZERO_UUID
    assert stored.value.commit_timestamp == group_node.clock.wall_ms()


def test_without_known_partitions_nothing_is_verified(group_node: Any) -> None:
    assert commit(group_node, 5, {"nothere": [0]}) == {("nothere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert commit(group_node, 5, {}) == {}
    assert commit(group_node, 5, {"t": []}) == {}
    assert group_node.log.verified == []
    assert group_node.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND


class DeniesOne:
    """An authorizer that denies one operation on one resource."""

    is_enabled = True

    def __init__(self, operation: Operation, resource_type: ResourceType, name: str) -> None:
        self._denied = (operation, resource_type, name)

    def authorize(self, _principal: str, _host: str, *permission: object) -> bool:
        return permission != self._denied

    def record_denial(self, *_: object) -> None:
        """Ignore it: also the log of denials of these tests."""


@pytest.mark.parametrize(
    ("operation", "resource_type", "name", "errors"),
    [
        pytest.param(
            Operation.WRITE,
            ResourceType.TRANSACTIONAL_ID,
            "payments",
            [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 3,
            id="transactional-id",
        ),
        pytest.param(Operation.READ, ResourceType.GROUP, "g", [ErrorCode.GROUP_AUTHORIZATION_FAILED] * 3, id="group"),
        pytest.param(
            Operation.READ,
            ResourceType.TOPIC,
            "t",
            [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.NONE],
            id="topic",
        ),
    ],
)
def test_permissions_on_transactional_id_group_and_topics_are_needed(
    group_node: Any, operation: Operation, resource_type: ResourceType, name: str, errors: list[ErrorCode]
) -> None:
    denies = DeniesOne(operation, resource_type, name)
    services = group_node.services
    group_node.services = lambda: _with_authorizer(services(), denies)

    partitions = [("t", 0), ("t", 99), ("u", 0)]
    assert commit(group_node, 5, {"t": [0, 99], "u": [0]}) == dict(zip(partitions, errors, strict=True))


def _with_authorizer(services: Any, authorizer: DeniesOne) -> Any:
    services.authorizer = services.denials = authorizer
    return services


@pytest.mark.parametrize(
    ("version", "error"),
    [
        pytest.param(1, ErrorCode.COORDINATOR_NOT_AVAILABLE, id="producer-that-fails-on-loading"),
        pytest.param(2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, id="producer-that-retries"),
    ],
)
def test_error_of_a_coordinator_that_loads_depends_on_the_version(
    group_node: Any, version: int, error: ErrorCode
) -> None:
    group_node.log.verification = Delayed.of(Verification(ErrorCode.NETWORK_EXCEPTION))

    assert commit(group_node, version, {"t": [0]}) == {("t", 0): error}


def test_group_without_a_name_is_rejected(group_node: Any) -> None:
    assert commit(group_node, 5, {"t": [0], "nothere": [0]}, group="") == {
        ("t", 0): ErrorCode.INVALID_GROUP_ID,
        ("nothere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


# Very many partitions


@pytest.fixture
def wide_node(new_group_node: Any) -> Any:
    """A node with topics of 200 partitions."""
    return new_group_node(topics={"__consumer_offsets": 4, "t": 200, "u": 200})


def test_very_many_partitions_are_stored_in_several_batches(wide_node: Any) -> None:
    errors = commit(wide_node, 5, {"t": list(range(200)), "u": list(range(201))})

    assert len(errors) == 401
    assert [key for key, error in errors.items() if error is not ErrorCode.NONE] == [("u", 200)]
    (batches,) = wide_node.log.batches.values()
    assert len(batches) > 1
    assert sum(batch.record_count for batch in batches) == 400


def test_later_batches_wait_for_the_first_one_which_opens_the_transaction(wide_node: Any) -> None:
    """Without a transaction in the log each of them would have to be verified, and have its own guard."""
    wide_node.log.verification = Delayed()

    with pytest.raises(RuntimeError, match="the steps wait for an event"):
        send(wide_node, 5, {"t": list(range(200))})

    assert len(wide_node.log.verified) == 1


def test_pieces_that_fail_later_have_the_error_in_their_own_partitions(wide_node: Any) -> None:
    commit(wide_node, 5, {"t": [0]})
    wide_node.log.append_error = ErrorCode.NOT_ENOUGH_REPLICAS

    errors = commit(wide_node, 5, {"t": list(range(200)), "u": list(range(200))})

    assert len(errors) == 400
    assert set(errors.values()) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
