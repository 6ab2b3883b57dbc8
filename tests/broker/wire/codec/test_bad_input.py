"""Malformed messages: a ProtocolError, and no memory for missing bytes."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import ProtocolError
from ottla.wire.codec import Message, Struct
from ottla.wire.messages.api_versions import ApiVersionsRequest
from peak_memory import peak_bytes_of

MEMORY_MULTIPLE_MAX = 100
"""Bytes of Python objects for one byte of input: the worst, an object of three empty arrays, is at sixty."""
MEMORY_FIXED_BYTES = 64 * 1024


def decode_or_reject(message_type: type[Message], data: bytes, version: int) -> Message | None:
    try:
        return message_type.decode(data, version)
    except ProtocolError:
        return None


@settings(max_examples=settings.default.max_examples // 25)
@given(data=st.data())
def test_message_truncated_anywhere_is_rejected(
    message_type: type[Message], message_version: int, messages: Any, data: st.DataObject
) -> None:
    encoded = data.draw(messages.of(message_type, message_version)).encode(message_version)

    for cut in range(len(encoded)):
        with pytest.raises(ProtocolError, match=message_type.__name__):
            message_type.decode(encoded[:cut], message_version)


@settings(max_examples=settings.default.max_examples // 10)
@given(noise=st.binary(max_size=64))
def test_random_bytes_are_decoded_or_rejected(message_type: type[Message], message_version: int, noise: bytes) -> None:
    message = decode_or_reject(message_type, noise, message_version)

    if message is not None:
        encoded = message.encode(message_version)
        assert message_type.decode(encoded, message_version).encode(message_version) == encoded


@settings(max_examples=settings.default.max_examples // 25)
@given(data=st.data())
def test_message_with_a_changed_byte_is_decoded_or_rejected(
    message_type: type[Message], message_version: int, messages: Any, data: st.DataObject
) -> None:
    encoded = bytearray(data.draw(messages.of(message_type, message_version)).encode(message_version))
    if encoded:
        at = data.draw(st.integers(0, len(encoded) - 1))
        encoded[at] = data.draw(st.integers(0, 255))

    message = decode_or_reject(message_type, bytes(encoded), message_version)

    assert message is None or type(message) is message_type


LIES = [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x80\x08", b"\x00\x0f\xff\xff"]


@pytest.mark.parametrize("lie", LIES, ids=bytes.hex)
@pytest.mark.parametrize("position", [0, 1, 4, 10, 13])
def test_wrong_lengths_allocate_no_memory(message_types: list[type[Message]], position: int, lie: bytes) -> None:
    data = bytes(position) + lie + bytes(200)
    for message_type in message_types:
        decode_or_reject(message_type, b"", message_type.versions.last)  # makes the decoder

        peak_bytes = peak_of(message_type, data, message_type.versions.last)

        assert peak_bytes <= MEMORY_FIXED_BYTES + MEMORY_MULTIPLE_MAX * len(data), message_type


def test_memory_of_empty_elements_is_at_most_a_multiple_of_their_bytes(message_type: type[Message]) -> None:
    """Any array, as full of nothing as the format allows."""
    version = message_type.versions.last
    for path, message in with_empty_elements(message_type, version):
        data = message.encode(version)
        message_type.decode(data, version)  # makes the decoder

        assert peak_of(message_type, data, version) <= MEMORY_FIXED_BYTES + MEMORY_MULTIPLE_MAX * len(data), path


def test_unknown_tags_cost_no_more_than_a_multiple_of_their_bytes() -> None:
    message = ApiVersionsRequest()
    message.unknown_tags = dict.fromkeys(range(10_000), b"")
    data = message.encode(4)

    assert peak_of(ApiVersionsRequest, data, 4) <= MEMORY_FIXED_BYTES + MEMORY_MULTIPLE_MAX * len(data)


def peak_of(message_type: type[Message], data: bytes, version: int) -> int:
    """Return the most bytes that were allocated while ``data`` was decoded."""
    return peak_bytes_of(lambda: decode_or_reject(message_type, data, version))


def with_empty_elements(struct_type: type[Struct], version: int, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield, for each array at any depth, a smallest message with a thousand smallest elements in that array."""
    for key, field in struct_type.fields.items():
        if version not in field.versions and version not in field.tagged:
            continue
        nested = field.struct_type
        if field.kind == "array":
            element = smallest(nested, version) if nested else SMALLEST_ELEMENTS.get(field.element, 0)
            yield f"{path}{key}", smallest(struct_type, version, **{key: [element] * 1_000})
        for deeper, inner in with_empty_elements(nested, version, f"{path}{key}.") if nested else ():
            yield deeper, smallest(struct_type, version, **{key: [inner] if field.kind == "array" else inner})


SMALLEST_ELEMENTS: dict[str, Any] = {"string": "", "uuid": bytes(16)}


def smallest(struct_type: type[Struct], version: int, **given_fields: Any) -> Struct:
    """Return the struct with the fewest bytes: nulls where they are allowed, else empty."""
    values: dict[str, Any] = {}
    for key, field in struct_type.fields.items():
        if version in field.tagged or version not in field.versions:
            continue
        if version in field.nullable:
            values[key] = None
        elif field.kind == "struct" and field.struct_type is not None:
            values[key] = smallest(field.struct_type, version)
        elif field.default is None:
            values[key] = "" if field.kind == "string" else b""
    return struct_type(**(values | given_fields))
