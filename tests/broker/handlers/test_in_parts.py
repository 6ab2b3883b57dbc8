"""Requests that are forwarded in parts: the joined response equals that to the whole request."""

from types import GeneratorType

import pytest

from ottla.errors import ErrorCode
from ottla.handlers.assign_replicas_to_dirs import _REPLICAS
from ottla.handlers.in_parts import ENTRIES_PER_PART, forward_in_parts
from ottla.purgatory import Delayed
from ottla.purgatory.steps import run_to_end
from ottla.types import Uuid
from ottla.wire.codec import Message
from ottla.wire.messages import assign_replicas_to_dirs as api

_SHAPES = [
    pytest.param([[1]], id="one-replica"),
    pytest.param([[ENTRIES_PER_PART]], id="one-topic-a-part-and-its-parents"),
    pytest.param([[200]], id="one-topic-in-many-parts"),
    pytest.param([[1] * 200], id="one-directory-of-many-topics"),
    pytest.param([[1]] * 200, id="many-directories"),
    pytest.param([[0, 70, 0], [], [3, 90], [33, 31, 32]], id="lists-of-all-lengths"),
]


class _Directories:
    """Responds as a controller that assigns each replica, in a directory that is numbered as the request has it."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.fails_at = -1

    def ask(self, part: api.AssignReplicasToDirsRequest) -> Delayed[Message]:
        if len(self.asked) == self.fails_at:
            return Delayed.of(api.AssignReplicasToDirsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
        self.asked.append(sum(len(topic.partitions) for each in part.directories for topic in each.topics))
        return Delayed.of(_response(part))


def _request(shape: list[list[int]]) -> api.AssignReplicasToDirsRequest:
    return api.AssignReplicasToDirsRequest(
        broker_id=3,
        broker_epoch=7,
        directories=[
            api.AssignReplicasToDirsRequestDirectoryData(
                id=_id(directory),
                topics=[
                    api.AssignReplicasToDirsRequestTopicData(
                        topic_id=_id(100 + topic),
                        partitions=[
                            api.AssignReplicasToDirsRequestPartitionData(partition_index=index)
                            for index in reversed(range(partitions))
                        ],
                    )
                    for topic, partitions in enumerate(topics)
                ],
            )
            for directory, topics in enumerate(shape)
        ],
    )


def _response(request: api.AssignReplicasToDirsRequest) -> api.AssignReplicasToDirsResponse:
    return api.AssignReplicasToDirsResponse(
        directories=[
            api.AssignReplicasToDirsResponseDirectoryData(
                id=directory.id,
                topics=[
                    api.AssignReplicasToDirsResponseTopicData(
                        topic_id=topic.topic_id,
                        partitions=[
                            api.AssignReplicasToDirsResponsePartitionData(partition_index=each.partition_index)
                            for each in topic.partitions
                        ],
                    )
                    for topic in directory.topics
                ],
            )
            for directory in request.directories
        ]
    )


def _id(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


def _ask(directories: _Directories, request: api.AssignReplicasToDirsRequest) -> Message:
    response = forward_in_parts(request, _REPLICAS, directories.ask)
    return run_to_end(response) if isinstance(response, GeneratorType) else response.value  # type: ignore[union-attr]


@pytest.mark.parametrize("shape", _SHAPES)
def test_joined_response_equals_that_of_the_whole_request(shape: list[list[int]]) -> None:
    request, directories = _request(shape), _Directories()
    expected = _response(request)

    assert _ask(directories, request) == expected
    # A part that is nearly full gets one more piece, which has as many entries at most.
    assert max(directories.asked) < 2 * ENTRIES_PER_PART


def test_small_request_is_forwarded_whole() -> None:
    directories = _Directories()

    _ask(directories, _request([[5, 5], [5]]))

    assert directories.asked == [15]


def test_top_level_error_of_a_part_is_the_response() -> None:
    directories = _Directories()
    directories.fails_at = 2

    response = _ask(directories, _request([[200]]))

    assert isinstance(response, api.AssignReplicasToDirsResponse)
    assert (response.error_code, response.directories) == (ErrorCode.STALE_BROKER_EPOCH, [])
