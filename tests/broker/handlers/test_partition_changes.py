"""Requests to a controller about partitions: each response has a field for top-level errors."""

from typing import Any

import pytest

from ottla.errors import ErrorCode, KafkaError
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
def test_top_level_error_is_in_every_field_that_can_have_it(request_message: Message) -> None:
    response: Any = error_response(request_message, KafkaError(ErrorCode.NOT_CONTROLLER, "elsewhere"))

    assert response.error_code == ErrorCode.NOT_CONTROLLER
    assert getattr(response, "error_message", "elsewhere") == "elsewhere"
    for topic in getattr(response, "responses", []):
        assert [each.error_code for each in topic.partitions] == [ErrorCode.NOT_CONTROLLER]
    assert [topic.name for topic in getattr(response, "topics", []) if hasattr(topic, "name")] == (
        ["t"] if isinstance(request_message, ListPartitionReassignmentsRequest) else []
    )
