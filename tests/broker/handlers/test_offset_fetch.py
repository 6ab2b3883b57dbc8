"""OffsetFetch in every version: one group or several, by name or id, some topics or all."""

from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.types import CONSUMER_OFFSETS_TOPIC
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)


@pytest.mark.parametrize("version", range(1, 8))
def test_requested_offsets_of_one_group_are_returned(group_node: Any, version: int) -> None:
    group_node.commit(offset=5, metadata="x")
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]

    response = group_node.call(OffsetFetchRequest(group_id="g", topics=topics), version).value

    assert response.error_code == ErrorCode.NONE
    (topic,) = response.topics
    assert [
        (partition.partition_index, partition.committed_offset, partition.metadata, partition.error_code)
        for partition in topic.partitions
    ] == [(0, 5, "x", 0), (1, -1, "", 0)]


@pytest.mark.parametrize("version", range(2, 8))
def test_null_topics_mean_all_topics(group_node: Any, version: int) -> None:
    group_node.commit("t", 0)
    group_node.commit("u", 0)

    response = group_node.call(OffsetFetchRequest(group_id="g", topics=None), version).value

    assert sorted(topic.name for topic in response.topics) == ["t", "u"]


def test_error_is_in_the_field_of_the_version(group_node: Any) -> None:
    for partition in range(group_node.PARTITIONS):
        group_node.groups.on_resigned(partition)
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
    request = OffsetFetchRequest(group_id="g", topics=topics)

    (partition,) = group_node.call(request, 1).value.topics[0].partitions
    assert (partition.error_code, partition.committed_offset) == (ErrorCode.NOT_COORDINATOR, -1)
    for version in range(2, 8):
        response = group_node.call(request, version).value
        assert (response.error_code, response.topics) == (ErrorCode.NOT_COORDINATOR, [])


@pytest.mark.parametrize("version", [8, 9, 10])
def test_offsets_of_several_groups_are_returned_in_order(group_node: Any, version: int) -> None:
    group_node.commit(offset=5)
    groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("g", "none", "g")]

    response = group_node.call(OffsetFetchRequest(groups=groups), version).value

    assert [(group.group_id, len(group.topics)) for group in response.groups] == [("g", 1), ("none", 0)]


def test_topics_can_be_requested_by_id(group_node: Any) -> None:
    group_node.commit("t", 1, offset=5)
    known, unknown = group_node.metadata.topic_id("t"), bytes(15) + b"\x7f"
    topics = [OffsetFetchRequestTopics(topic_id=id_, partition_indexes=[1]) for id_ in (known, unknown)]

    (group,) = group_node.call(
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)]), 10
    ).value.groups

    found = {topic.topic_id: topic.partitions[0] for topic in group.topics}
    assert (found[known].committed_offset, found[known].error_code) == (5, ErrorCode.NONE)
    assert (found[unknown].committed_offset, found[unknown].error_code) == (-1, ErrorCode.UNKNOWN_TOPIC_ID)


def test_topics_without_an_id_are_omitted_from_all(group_node: Any) -> None:
    group_node.commit("t", 0)
    group_node.commit("u", 0)
    group_node.set_topics({CONSUMER_OFFSETS_TOPIC: group_node.PARTITIONS, "t": 3})

    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])

    (by_id,) = group_node.call(request, 10).value.groups
    assert [topic.topic_id for topic in by_id.topics] == [group_node.metadata.topic_id("t")]
    (by_name,) = group_node.call(request, 9).value.groups
    assert sorted(topic.name for topic in by_name.topics) == ["t", "u"]


def test_old_consumers_get_a_known_error_for_a_slow_log(group_node: Any) -> None:
    group_node.log.is_held = True
    group_node.commit()
    fetched = group_node.fetch_all()

    group_node.advance(5_000)

    assert fetched.value.groups[0].error_code == ErrorCode.NOT_COORDINATOR
