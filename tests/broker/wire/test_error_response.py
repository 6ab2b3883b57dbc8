"""Error responses: with the error in the one field of a response, or in each of its parts."""

from typing import Any

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.wire.codec import Message
from ottla.wire.error_response import bare_error_response, error_response
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.registry import ApiKey
from ottla.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

ERROR = KafkaError(ErrorCode.NOT_CONTROLLER, "elsewhere")


@pytest.mark.parametrize(
    ("request_message", "expected"),
    [
        (AlterPartitionRequest(), AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER)),
        (
            UpdateFeaturesRequest(),
            UpdateFeaturesResponse(error_code=ErrorCode.NOT_CONTROLLER, error_message="elsewhere"),
        ),
    ],
    ids=["a-code", "a-code-and-words"],
)
def test_response_with_one_error_field_has_the_error(request_message: Message, expected: Message) -> None:
    assert error_response(request_message, ERROR) == expected


def test_response_with_nested_errors_has_the_error_in_each_part() -> None:
    request = CreateTopicsRequest(topics=[CreatableTopic(name="a"), CreatableTopic(name="b")])

    response: Any = error_response(request, ERROR)

    assert [(topic.name, topic.error_code, topic.error_message) for topic in response.topics] == [
        ("a", ErrorCode.NOT_CONTROLLER, "elsewhere"),
        ("b", ErrorCode.NOT_CONTROLLER, "elsewhere"),
    ]


def test_response_without_an_error_field_is_none() -> None:
    assert bare_error_response(ApiKey.CREATE_TOPICS, ERROR) is None
