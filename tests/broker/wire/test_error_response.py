"""Refusals: in the one place that a response has for them, or in each of its parts."""

from typing import Any

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.wire.codec import Message
from ottla.wire.error_response import bare_error_response, error_response
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.registry import ApiKey
from ottla.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

REFUSAL = KafkaError(ErrorCode.NOT_CONTROLLER, "elsewhere")


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
def test_a_response_with_one_error_has_that(request_message: Message, expected: Message) -> None:
    assert error_response(request_message, REFUSAL) == expected


def test_a_response_with_errors_within_has_it_in_each_part() -> None:
    request = CreateTopicsRequest(topics=[CreatableTopic(name="a"), CreatableTopic(name="b")])

    answer: Any = error_response(request, REFUSAL)

    assert [(topic.name, topic.error_code, topic.error_message) for topic in answer.topics] == [
        ("a", ErrorCode.NOT_CONTROLLER, "elsewhere"),
        ("b", ErrorCode.NOT_CONTROLLER, "elsewhere"),
    ]


def test_an_answer_without_a_place_for_it_is_none() -> None:
    assert bare_error_response(ApiKey.CREATE_TOPICS, REFUSAL) is None
