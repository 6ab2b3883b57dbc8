"""The coordinator decodes the topics in consumers' metadata, in any version, and tolerates malformed metadata."""

from typing import Any

import pytest

from ottla.errors import ErrorCode, ProtocolError
from ottla.groups.classic import subscription as subscription_module
from ottla.groups.classic.subscription import ENTRIES_MAX, subscribed_topics
from ottla.wire.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

MALFORMED = [
    pytest.param(b"", id="empty"),
    pytest.param(b"\0", id="half-a-version"),
    pytest.param(b"\0\0", id="no-topics"),
    pytest.param(b"nonsense", id="text"),
    pytest.param(b"\0\0\x7f\xff\xff\xff", id="more-topics-than-bytes"),
    pytest.param(b"\0\0\xff\xff\xff\xff", id="null-topics"),
    pytest.param(b"\0\0\0\0\0\1\0\1\xff\0\0\0\0", id="not-utf-8"),
]


@pytest.mark.parametrize("version", range(4))
def test_topics_are_decoded_in_every_version(version: int) -> None:
    data = version.to_bytes(2, "big") + ConsumerProtocolSubscription(topics=["t", "u"], user_data=b"x").encode(version)

    assert subscribed_topics([data, data]) == {"t", "u"}


def test_unknown_newer_version_is_decoded_as_far_as_known() -> None:
    data = b"\x00\x63" + ConsumerProtocolSubscription(topics=["t"]).encode(3) + b"more"

    assert subscribed_topics([data]) == {"t"}


@pytest.mark.parametrize("metadata", MALFORMED)
def test_malformed_metadata_is_rejected(metadata: bytes) -> None:
    with pytest.raises(ProtocolError):
        subscribed_topics([metadata])


@pytest.mark.parametrize("metadata", MALFORMED)
def test_members_with_malformed_metadata_can_form_a_group(group_node: Any, metadata: bytes) -> None:
    joined = group_node.call(
        JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        ),
        3,
    )
    group_node.advance(500)

    response = joined.value
    assert (response.error_code, response.generation_id) == (ErrorCode.NONE, 1)
    assert response.members[0].metadata == metadata


def cooperative(topics: list[str], *owned: int) -> bytes:
    """Return the subscription of a member that owns partitions of the first topic."""
    partitions = [ConsumerProtocolSubscriptionTopicPartition(topic=topics[0], partitions=list(owned))]
    return b"\0\1" + ConsumerProtocolSubscription(topics=topics, owned_partitions=partitions).encode(1)


def test_equal_topics_are_decoded_once_whatever_the_members_own() -> None:
    topics = [f"t{number}" for number in range(ENTRIES_MAX)]

    assert subscribed_topics(cooperative(topics, owned) for owned in range(3)) == set(topics)


def test_topics_of_all_members_are_bounded() -> None:
    with pytest.raises(ProtocolError, match="entries"):
        subscribed_topics([cooperative([f"t{number}" for number in range(ENTRIES_MAX)]), cooperative(["one more"])])


def delete_offsets(node: Any, topic: str) -> ErrorCode:
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    topics = [OffsetDeleteRequestTopic(name=topic, partitions=partitions)]
    response = node.call(OffsetDeleteRequest(group_id="g", topics=topics), 0).value
    return ErrorCode(response.topics[0].partitions[0].error_code)


def test_new_generation_decodes_no_subscription(group_node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member sends a megabyte of topics, and there may be a thousand members."""
    decoded: list[int] = []

    def count(subscriptions: list[bytes]) -> frozenset[str]:
        decoded.append(len(subscriptions))
        return subscribed_topics(subscriptions)

    monkeypatch.setattr(subscription_module, "subscribed_topics", count)

    members = group_node.stable_group(2)
    assert decoded == []

    for _ in range(2):
        assert delete_offsets(group_node, "t") is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert delete_offsets(group_node, "u") is ErrorCode.NONE
    assert decoded == [len(members)]


def test_group_with_too_many_topics_may_read_any(group_node: Any) -> None:
    group_node.stable_group(protocols={"range": [f"t{number}" for number in range(ENTRIES_MAX + 1)]})

    assert delete_offsets(group_node, "u") is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
