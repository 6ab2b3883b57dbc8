"""Round trips of any message in any version."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.wire.codec import Message


@settings(max_examples=settings.default.max_examples // 16)
@given(data=st.data())
def test_message_round_trips(
    message_type: type[Message], message_version: int, messages: Any, data: st.DataObject
) -> None:
    message = data.draw(messages.of(message_type, message_version))

    encoded = message.encode(message_version)

    assert message_type.decode(encoded, message_version) == message
    assert message_type.decode(bytearray(b"header" + encoded), message_version, 6) == message
    assert message_type.decode(encoded, message_version).encode(message_version) == encoded


def test_defaults_round_trip_unless_the_version_does_not_allow_null(
    message_type: type[Message], message_version: int
) -> None:
    message = message_type()

    nulls = [
        key
        for key, field in message_type.fields.items()
        if message_version in field.versions
        and message_version not in field.tagged
        and field.default is None
        and message_version not in field.nullable
    ]
    if nulls:
        with pytest.raises(ValueError, match="cannot be encoded"):
            message.encode(message_version)
    else:
        assert message_type.decode(message.encode(message_version), message_version) == message
