"""What nodes ask a controller about partitions: both forms of AlterPartition mean one, refusals have their place."""

from typing import Any

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.catalog import find
from ottla.purgatory import Delayed
from ottla.wire.codec import Message
from ottla.wire.error_response import error_response
from ottla.wire.messages import alter_partition as api
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from ottla.wire.messages.registry import ApiKey


@pytest.mark.parametrize("version", [2, 3])
def test_the_in_sync_set_reaches_the_controller_in_one_form(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def ask_controller(_: Any, request: Message, **__: object) -> Delayed[Message]:
        asked.append(request)
        return Delayed.of(api.AlterPartitionResponse())

    monkeypatch.setattr("ottla.handlers.alter_partition.ask_controller", ask_controller)
    wanted = api.AlterPartitionRequestPartitionData(partition_index=0)
    if version == 2:
        wanted.new_isr = [1, 2]
    else:
        wanted.new_isr_with_epochs = [api.BrokerState(broker_id=1), api.BrokerState(broker_id=2, broker_epoch=5)]
    request = api.AlterPartitionRequest(topics=[api.AlterPartitionRequestTopicData(partitions=[wanted])])
    served = find(ApiKey.ALTER_PARTITION, version)
    assert served is not None

    served.handler(_Context(version), request)

    isr = asked[0].topics[0].partitions[0].new_isr_with_epochs
    assert [(each.broker_id, each.broker_epoch) for each in isr] == [(1, -1), (2, -1 if version == 2 else 5)]


class _Context:
    def __init__(self, api_version: int) -> None:
        self.api_version = api_version


@pytest.mark.parametrize(
    "request_message",
    [
        api.AlterPartitionRequest(),
        AssignReplicasToDirsRequest(),
        ControllerRegistrationRequest(),
        AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=[ReassignablePartition()])]),
        ListPartitionReassignmentsRequest(topics=[ListPartitionReassignmentsTopics(name="t", partition_indexes=[3])]),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_refusal_of_the_whole_stands_wherever_there_is_room_for_it(request_message: Message) -> None:
    answer: Any = error_response(request_message, KafkaError(ErrorCode.NOT_CONTROLLER, "elsewhere"))

    assert answer.error_code == ErrorCode.NOT_CONTROLLER
    assert getattr(answer, "error_message", "elsewhere") == "elsewhere"
    for topic in getattr(answer, "responses", []):
        assert [each.error_code for each in topic.partitions] == [ErrorCode.NOT_CONTROLLER]
    assert [topic.name for topic in getattr(answer, "topics", []) if hasattr(topic, "name")] == (
        ["t"] if isinstance(request_message, ListPartitionReassignmentsRequest) else []
    )
