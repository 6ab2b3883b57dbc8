"""The coordinator decodes the topics in consumers' metadata, in any version, and tolerates malformed metadata."""

from typing import Any

import pytest

from ottla.errors import ErrorCode, ProtocolError
from ottla.groups.classic.subscription import subscribed_topics
from ottla.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol

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
