"""Messages are decoded and encoded in steps as at once, and no step has more than a few entries."""

from collections.abc import Generator
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import ProtocolError
from ottla.wire.codec import Message
from ottla.wire.codec.message import Splice
from ottla.wire.codec.primitives import LazyArray, TooManyEntriesError, run_steps
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

T = TypeVar("T")


def count_steps(steps: Generator[None, None, T]) -> tuple[T, int]:
    count = 0
    try:
        while True:
            next(steps)
            count += 1
    except StopIteration as end:
        return end.value, count


def encode_in_steps(message: Message, version: int) -> tuple[bytes, int]:
    out, splices = bytearray(), list[Splice]()
    _, count = count_steps(message.write_in_steps(version, out, splices))
    assert not splices
    return bytes(out), count


@settings(max_examples=settings.default.max_examples // 25)
@given(data=st.data())
def test_steps_give_the_same_message_and_bytes(
    message_type: type[Message], message_version: int, messages: Any, data: st.DataObject
) -> None:
    message = data.draw(messages.of(message_type, message_version))
    straight, straight_splices = bytearray(), list[Splice]()
    message.write(message_version, straight, straight_splices)
    in_steps, splices = bytearray(), list[Splice]()

    run_steps(message.write_in_steps(message_version, in_steps, splices))
    decoded, position = run_steps(message_type.decode_in_steps(message.encode(message_version), message_version))

    assert (in_steps, splices) == (straight, straight_splices)
    assert decoded == message
    assert position == len(message.encode(message_version))


@pytest.mark.parametrize(
    ("message", "version"),
    [
        pytest.param(MetadataRequest(topics=[MetadataRequestTopic(name="t")] * 10_000), 9, id="structs"),
        pytest.param(DeleteTopicsRequest(topic_names=["t"] * 10_000), 5, id="strings"),
        pytest.param(
            ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition()] * 10_000)]),
            6,
            id="nested-structs",
        ),
    ],
)
def test_step_has_at_most_a_few_dozen_entries(message: Message, version: int) -> None:
    data, encoded_in = encode_in_steps(message, version)
    _, decoded_in = count_steps(type(message).decode_in_steps(data, version))

    assert data == message.encode(version)
    assert encoded_in >= 10_000 // 32
    assert decoded_in >= 10_000 // 32


def test_entries_above_the_limit_are_rejected_in_steps_as_in_one_go() -> None:
    data = MetadataRequest(topics=[MetadataRequestTopic(name="")] * 1_000).encode(1)

    with pytest.raises(ProtocolError, match=r"topics has 1000 entries, .* 1 more"):
        run_steps(MetadataRequest.decode_in_steps(data, 1, entries_max=999))
    with pytest.raises(ProtocolError, match="ends too early"):
        run_steps(MetadataRequest.decode_in_steps(data[:2], 1))


def test_message_with_too_many_entries_is_not_encoded_in_one_go() -> None:
    message = MetadataRequest(topics=[MetadataRequestTopic(name="")] * 1_000)
    message.write(1, bytearray(), [], entries_max=1_000)

    with pytest.raises(TooManyEntriesError):
        message.write(1, bytearray(), [], entries_max=999)


def test_items_of_a_lazy_array_are_created_one_at_a_time() -> None:
    alive: list[int] = []

    def groups() -> Generator[DescribedGroup, None, None]:
        for number in range(100):
            alive.append(number)
            yield DescribedGroup(group_id=f"g{number}")

    response = DescribeGroupsResponse(groups=LazyArray(100, groups()).as_list)
    with pytest.raises(TooManyEntriesError):
        response.write(5, bytearray(), [])
    assert not alive, "no item is lost by an attempt at once"
    data, _ = encode_in_steps(response, 5)

    assert [group.group_id for group in DescribeGroupsResponse.decode(data, 5).groups] == [f"g{n}" for n in range(100)]


def test_fields_that_a_version_lacks_are_rejected_in_steps_too() -> None:
    message = MetadataRequest(topics=[], include_topic_authorized_operations=True)

    with pytest.raises(ValueError, match="cannot carry"):
        run_steps(message.write_in_steps(1, bytearray(), []))
