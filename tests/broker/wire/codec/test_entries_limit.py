"""The entries limit of a message counts all arrays, nested ones and tagged fields."""

import pytest

from ottla.errors import ProtocolError
from ottla.wire.codec import Message
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic


def nested() -> bytes:
    """Three topics with two partitions each: nine entries."""
    partitions = [DeleteRecordsPartition(partition_index=0), DeleteRecordsPartition(partition_index=1)]
    topics = [DeleteRecordsTopic(name=name, partitions=partitions) for name in "abc"]
    return DeleteRecordsRequest(topics=topics).encode(2)


def numbers() -> bytes:
    """One topic with five numbers: six entries."""
    return ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[0, 1, 2, 3, 4])]).encode(2)


def tagged() -> bytes:
    """Three unknown tagged fields in the one tagged section of the message."""
    request = ApiVersionsRequest()
    request.unknown_tags = {100: b"", 101: b"x", 102: b""}
    return request.encode(3)


@pytest.mark.parametrize(
    ("listing_type", "version", "data", "entries"),
    [
        pytest.param(DeleteRecordsRequest, 2, nested(), 9, id="nested"),
        pytest.param(ElectLeadersRequest, 2, numbers(), 6, id="numbers"),
        pytest.param(ApiVersionsRequest, 3, tagged(), 3, id="unknown-tags"),
        pytest.param(MetadataRequest, 1, MetadataRequest(topics=None).encode(1), 0, id="null"),
    ],
)
def test_entries_limit_counts_all_entries(listing_type: type[Message], version: int, data: bytes, entries: int) -> None:
    message, _ = listing_type.decode_from(data, version, entries_max=entries)

    assert message == listing_type.decode(data, version), "without a limit the result is the same"
    if entries:
        with pytest.raises(ProtocolError, match="entries, with which the message has 1 more than"):
            listing_type.decode_from(data, version, entries_max=entries - 1)


def test_too_many_entries_are_rejected_before_allocation() -> None:
    data = MetadataRequest(topics=[MetadataRequestTopic(name="")] * 1_000).encode(1)

    with pytest.raises(ProtocolError, match=r"topics has 1000 entries, .* 1 more"):
        MetadataRequest.decode_from(data, 1, entries_max=999)
