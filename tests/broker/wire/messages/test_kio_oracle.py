"""kio decodes our bytes, field by field, and encodes the same bytes: every message and version that it has.

kio has no unknown tags, no error codes of its own making, and times only as Python has them: values are kept to that.
"""

import dataclasses
import datetime
import io
import re
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from ottla.wire.codec import Message
from ottla.wire.codec.fields import Field

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MODULE_NAMES = ("request", "response", "header", "data")
ERROR_CODES = st.sampled_from([code.value for code in ErrorCode])


def kio_type(message_type: type[Message], version: int) -> Any:
    """Return kio's class; skip the test where it has none."""
    folder = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", message_type.__name__).lower()
    folders = (folder, folder.removesuffix("_request").removesuffix("_response"))
    for path in [f"kio.schema.{folder}.v{version}.{name}" for folder in folders for name in MODULE_NAMES]:
        try:
            return getattr(import_module(path), message_type.__name__)
        except (ModuleNotFoundError, AttributeError):
            continue
    assert not message_type.__name__.endswith(("Request", "Response")), "kio has every API"
    pytest.skip("kio does not have this message")


def values_for_kio(key: str, field: Field) -> st.SearchStrategy[Any] | None:
    if field.kind == "int16" and key.endswith("error_code"):
        return ERROR_CODES
    if field.kind == "int64" and (key.endswith("_ms") or "timestamp" in key):
        return st.integers(0, 2**40)
    if field.kind == "int32" and key.endswith("_ms"):
        return st.integers(-(2**31), 2**31 - 1)
    if field.kind == "float64":
        return st.floats(allow_nan=False, allow_infinity=False)
    return None


def assert_same(ours: Any, theirs: Any, where: str) -> None:
    """Compare what we wrote with what kio read."""
    if isinstance(ours, list):
        assert len(ours) == len(theirs), where
        for index, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(mine, other, f"{where}[{index}]")
    elif hasattr(ours, "fields"):
        keys = {key.replace("_", ""): key for key in ours.fields}
        for field in dataclasses.fields(theirs):
            plain = field.name.replace("_", "")
            key = keys[plain if plain in keys else f"{plain}ms"]
            assert_same(getattr(ours, key), getattr(theirs, field.name), f"{where}.{key}")
    elif isinstance(theirs, UUID) or (theirs is None and ours == bytes(16)):
        assert ours == (bytes(16) if theirs is None else theirs.bytes), where
    elif isinstance(theirs, ErrorCode):
        assert ours == theirs.value, where
    elif isinstance(theirs, datetime.timedelta):
        assert ours == round(theirs.total_seconds() * 1000), where
    elif isinstance(theirs, datetime.datetime):
        assert ours == round((theirs - EPOCH).total_seconds() * 1000), where
    else:
        assert ours == theirs, where


@pytest.fixture(scope="module")
def kio_messages(make_message_strategies: Any) -> Any:
    return make_message_strategies(with_unknown_tags=False, override=values_for_kio)


@settings(max_examples=settings.default.max_examples // 25)
@given(data=st.data())
def test_kio_reads_our_bytes_and_writes_the_same(
    message_type: type[Message], message_version: int, kio_messages: Any, data: st.DataObject
) -> None:
    their_type = kio_type(message_type, message_version)
    message = data.draw(kio_messages.of(message_type, message_version))
    encoded = message.encode(message_version)

    theirs, size = entity_reader(their_type)(encoded, 0)
    again = io.BytesIO()
    entity_writer(their_type)(again, theirs)

    assert size == len(encoded)
    assert_same(message, theirs, message_type.__name__)
    assert again.getvalue().hex() == encoded.hex()
    assert message_type.decode(again.getvalue(), message_version) == message
