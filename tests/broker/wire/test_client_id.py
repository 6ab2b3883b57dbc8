"""A client id that is not UTF-8 is read as Kafka reads it, and always fits a string field."""

import pytest

from ottla.wire.client_id import decode_malformed
from ottla.wire.codec.primitives import STRING_BYTES_MAX


@pytest.mark.parametrize(
    ("data", "client_id"),
    [
        pytest.param(b"", "", id="empty"),
        pytest.param("\u00e9\U0001f600".encode(), "\u00e9\U0001f600", id="utf-8"),
        pytest.param(b"a\xffb", "a\ufffdb", id="one-byte-of-no-character"),
        pytest.param(b"\xed\xa0\x80", "\ufffd\ufffd\ufffd", id="half-a-surrogate-pair"),
        pytest.param(b"x" * STRING_BYTES_MAX, "x" * STRING_BYTES_MAX, id="as-long-as-may-be"),
        pytest.param(b"\xff" * STRING_BYTES_MAX, "\ufffd" * (STRING_BYTES_MAX // 3), id="three-times-as-long"),
    ],
)
def test_client_id_is_decoded(data: bytes, client_id: str) -> None:
    assert decode_malformed(memoryview(data)) == client_id
    assert len(client_id.encode()) <= STRING_BYTES_MAX
