"""Kafka's generated classes decode our bytes and encode the same bytes: every message, every version."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.wire.codec import Message

pytestmark = pytest.mark.interop


@settings(max_examples=settings.default.max_examples // 25)
@given(data=st.data())
def test_jvm_decodes_and_encodes_our_bytes_unchanged(
    jvm: Any, message_type: type[Message], message_version: int, messages: Any, data: st.DataObject
) -> None:
    drawn = data.draw(st.lists(messages.of(message_type, message_version), min_size=3, max_size=3))
    encoded = [message.encode(message_version) for message in drawn]

    assert jvm.encode_again(message_type, message_version, *encoded) == encoded


def test_default_message_equals_the_jvms(jvm: Any, message_type: type[Message], message_version: int) -> None:
    theirs = jvm.default(message_type, message_version)

    if theirs is None:
        with pytest.raises(ValueError, match="cannot"):
            message_type().encode(message_version)
    else:
        assert message_type().encode(message_version).hex() == theirs.hex()
        assert message_type.decode(theirs, message_version) == message_type()
