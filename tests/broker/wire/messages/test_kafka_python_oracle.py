"""kafka-python decodes our bytes, field by field, and encodes the same bytes: every message that it has."""

import io
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.wire.codec import Message
from ottla.wire.codec.fields import Field
from ottla.wire.messages.headers import RequestHeader

RENAMED = ("authorizedoperations", "clusterauthorizedoperations", "topicauthorizedoperations")


@pytest.fixture(scope="module")
def plain_messages(make_message_strategies: Any) -> Any:
    return make_message_strategies(with_unknown_tags=False, override=values_for_kafka_python)


def values_for_kafka_python(key: str, field: Field) -> st.SearchStrategy[Any] | None:
    """Keep to operations that exist: it reads bit fields as sets of them."""
    return st.integers(0, 2**15 - 1) if field.kind == "int32" and key.endswith("authorized_operations") else None


def assert_same(ours: Any, theirs: Any, where: str, version: int) -> None:
    if isinstance(ours, list):
        assert len(ours) == len(theirs), where
        for index, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(mine, other, f"{where}[{index}]", version)
    elif hasattr(ours, "fields"):
        keys = {key.replace("_", ""): key for key in ours.fields}
        for name, field in theirs.fields.items():
            if field.for_version_q(version):
                plain = name.replace("_", "")
                key = next(keys[known] for known in (plain, *RENAMED) if known in keys)
                assert_same(getattr(ours, key), getattr(theirs, name), f"{where}.{key}", version)
    elif isinstance(theirs, set):
        assert ours == sum(1 << operation for operation in theirs), where
    elif isinstance(theirs, UUID):
        assert ours == theirs.bytes, where
    else:
        assert ours == theirs, where


@settings(max_examples=settings.default.max_examples // 25)
@given(data=st.data())
def test_kafka_python_reads_our_bytes_and_writes_the_same(
    message_type: type[Message],
    message_version: int,
    kafka_python_types: dict[str, Any],
    plain_messages: Any,
    data: st.DataObject,
) -> None:
    their_type = kafka_python_types.get(message_type.__name__)
    if their_type is None or their_type._struct.max_version < message_version:
        pytest.skip("kafka-python does not have this message in this version")
    # Its header's client id is the one string that is not compact in a flexible version.
    is_flexible = message_version in message_type.flexible
    form = {
        "version": message_version,
        "compact": is_flexible and message_type is not RequestHeader,
        "tagged": is_flexible,
    }
    message = data.draw(plain_messages.of(message_type, message_version))
    encoded = message.encode(message_version)

    theirs = their_type._struct.decode(io.BytesIO(encoded), **form)

    assert_same(message, theirs, message_type.__name__, message_version)
    assert their_type._struct.encode(theirs, **form).hex() == encoded.hex()
