"""Values for the fields of requests, and frames of them: valid and corrupt ones, from a seed."""

import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ottla.types import Uuid
from ottla.wire.codec import Message, Struct
from ottla.wire.codec.fields import FIXED_KINDS, Field
from ottla.wire.messages.headers import RequestHeader
from ottla.wire.messages.registry import ApiKey, request_header_version, request_type
from ottla.wire.records import Record, build_batch

TOPIC = "flights"
PLANTED = "a\n2026-01-01T00:00:00.000Z ERROR   ottla.node.node: forged\r\x1b[31m\x00\x85\u2028\u202e\x7f"
"""Each of its unprintable characters would forge or hide text in a log."""
LONG = "n" * 32_767
STRINGS = (TOPIC, TOPIC, TOPIC, "g", "g", "", "__consumer_offsets", "1", "consumer", "\u00e9\u2713", "x" * 300, PLANTED)
LENGTHS = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x80\x80\x80\x08")
FRAMES_PER_VERSION = int(os.environ.get("OTTLA_FUZZ_FRAMES", "8"))
DISTINCT_MAX = 500
CORRELATION_ID = 77
CLIENT_ID = "fuzz"


class RandomValues:
    """Values for fields: often ones that this node knows, else any that the field can hold.

    ``known`` has functions that return a value known to the node, by the name of a field: most fields of that name get
    one. Other strings are drawn from ``strings``. ``long_list`` names the field with a list of ``long_list_size``
    entries; other lists have 3 at most. ``is_complete``: no field is left out, none is null, and each list has one
    entry.
    """

    def __init__(
        self,
        seed: int,
        topic_id: Uuid,
        *,
        strings: Sequence[str] = STRINGS,
        known: Mapping[str, Callable[[], Any]] | None = None,
    ) -> None:
        self.random = random.Random(seed)
        self.topic_id = topic_id
        self.strings = strings
        self.known = known or {}
        self.long_list = ""
        self.long_list_size = 0
        self.is_complete = False
        self.owner = ""
        """Class of the struct whose value is generated."""

    def message(self, message_type: type[Message], version: int) -> Message:
        message = self._struct(message_type, version)
        assert isinstance(message, Message)
        return message

    def _struct(self, struct_type: type[Struct], version: int) -> Struct:
        struct = struct_type()
        for key, field in struct_type.fields.items():
            if version in field.tagged and not self.is_complete and self.random.random() < 0.5:
                continue
            self.owner = struct_type.__name__
            if version in field.versions or version in field.tagged:
                setattr(struct, key, self._value(key, field, version))
        return struct

    def _value(self, key: str, field: Field, version: int) -> Any:
        if key in self.known and key != self.long_list and self.random.random() < 0.85:
            return self.known[key]()
        if version in field.nullable and not self.is_complete and self.random.random() < 0.2:
            return None
        if field.kind == "struct":
            assert field.struct_type is not None
            return self._struct(field.struct_type, version)
        if field.kind == "array":
            return self._list(key, field, version)
        return self._scalar(key, field.kind)

    def _list(self, key: str, field: Field, version: int) -> list[Any]:
        if key != self.long_list:
            return [self._element(key, field, version) for _ in range(self._list_size())]
        # Some are repeated and some are not.
        distinct = min(self.long_list_size, DISTINCT_MAX)
        elements = [self._element(key, field, version) for _ in range(distinct)]
        return elements * (self.long_list_size // distinct)

    def _list_size(self) -> int:
        return 1 if self.is_complete else self.random.choice((0, 1, 1, 2, 3))

    def _element(self, key: str, field: Field, version: int) -> Any:
        if field.struct_type is not None:
            return self._struct(field.struct_type, version)
        return self._scalar(key, field.element)

    def _scalar(self, key: str, kind: str) -> Any:
        if kind == "boolean":
            return self.random.random() < 0.5
        if kind == "float64":
            return self.random.choice((0.0, 1.0, -1.5, float("nan"), float("inf"), 1e300))
        if kind == "uuid":
            return self.random.choice((self.topic_id, Uuid(bytes(16)), Uuid(self.random.randbytes(16))))
        if kind == "string":
            return self.random.choice(self.strings)
        if kind in ("bytes", "records"):
            return self.random.choice((b"", self.random.randbytes(40), self._batch()))
        return self._integer(key, kind)

    def _integer(self, key: str, kind: str) -> int:
        size_bits = FIXED_KINDS[kind][1] * 8
        low, high = (0, 2**size_bits - 1) if kind == "uint16" else (-(2 ** (size_bits - 1)), 2 ** (size_bits - 1) - 1)
        if key.endswith(("_ms", "_count", "num_partitions")) and self.random.random() < 0.9:
            return self.random.choice((0, 1, 10, 100))
        return self.random.choice((0, 0, 1, 1, 2, 3, max(low, -1), low, high, self.random.randint(low, high)))

    def _batch(self) -> bytes:
        batch = bytearray(build_batch([Record(0, 1_700_000_000_000, b"k", b"v")]))
        if self.random.random() < 0.5:
            batch[self.random.randrange(len(batch))] = self.random.randrange(256)
        return bytes(batch)

    def mutated(self, body: bytes) -> bytes:
        """Return ``body`` unchanged, or with one random mutation."""
        data = bytearray(body)
        at = self.random.randrange(len(data) + 1)
        match self.random.randrange(6):
            case 0:
                return body
            case 1:
                return body[:at]
            case 2:
                data[at:at] = self.random.randbytes(self.random.randrange(1, 6))
            case 3:
                data[at : at + 4] = self.random.choice(LENGTHS)
            case 4:
                for _ in range(self.random.randrange(1, 4) if data else 0):
                    data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)
            case _:
                del data[at : at + self.random.randrange(1, 6)]
        return bytes(data)


def list_fields(struct_type: type[Struct], version: int) -> Iterator[str]:
    """Generate the names of the fields that are lists, nested ones as well."""
    for key, field in struct_type.fields.items():
        if version not in field.versions and version not in field.tagged:
            continue
        if field.kind == "array":
            yield key
        if field.struct_type is not None:
            yield from list_fields(field.struct_type, version)


def header_of(api_key: ApiKey, version: int, client_id: str | None = CLIENT_ID) -> bytes:
    header = RequestHeader(
        request_api_key=api_key, request_api_version=version, correlation_id=CORRELATION_ID, client_id=client_id
    )
    return header.encode(request_header_version(api_key, version))


def frames_of(api_key: ApiKey, random_values: RandomValues, versions: range) -> Iterator[tuple[int, bytes]]:
    for version in versions:
        for number in range(FRAMES_PER_VERSION):
            body = random_values.message(request_type(api_key), version).encode(version)
            sound = header_of(api_key, version) + body
            yield version, sound if number == 0 else header_of(api_key, version) + random_values.mutated(body)
