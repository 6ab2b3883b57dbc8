"""Requests and responses of recorded scenarios as plain data (for YAML), with comparable ids and times."""

import time
from collections.abc import Callable
from typing import Any

from ottla.errors import ErrorCode
from ottla.types import ZERO_UUID
from ottla.wire.codec import Struct
from ottla.wire.codec.fields import Field
from ottla.wire.records import (
    Record,
    build_batch,
    iterate_batches,
    parse_control_key,
    parse_end_transaction_value,
    read_records,
)

SCOPED_FIELDS = {
    "transactional_id",
    "v3_and_below_transactional_id",
    "transactional_ids",
    "transactional_id_pattern",
    "group_id",
    "groups_names",
    "groups",
    "name",
    "topic",
}
"""Fields with names that belong to one run of a scenario: the names get the run's suffix."""

PRODUCER_ID_FIELDS = {
    "producer_id",
    "v3_and_below_producer_id",
    "producer_id_filters",
    "ongoing_txn_producer_id",
}
TIME_FIELDS = {"transaction_start_time_ms", "last_timestamp", "log_append_time_ms", "timestamp"}
LEFT_OUT = {"throttle_time_ms", "node_endpoints", "session_id", "error_message"}


class Names:
    """Translates between the names of a scenario and those of one run against a broker.

    ``p1``, ``p2`` ... stand for the producer ids in the order in which the broker gave them.
    """

    def __init__(self, suffix: str) -> None:
        self.suffix = suffix
        self.topic_ids: dict[str, bytes] = {}
        self._producer_ids: dict[str, int] = {}
        self._literal_producer_ids: set[int] = set()

    def scoped(self, name: str) -> str:
        return name + self.suffix if name else name

    def unscoped(self, name: str) -> str:
        return name.removesuffix(self.suffix)

    def producer_id(self, text: str | int) -> int:
        if isinstance(text, str):
            return self._producer_ids[text]
        self._literal_producer_ids.add(text)
        return text

    def shown_producer_id(self, producer_id: int) -> str | int:
        if producer_id < 0 or producer_id in self._literal_producer_ids:
            return producer_id
        for name, known in self._producer_ids.items():
            if known == producer_id:
                return name
        name = f"p{len(self._producer_ids) + 1}"
        self._producer_ids[name] = producer_id
        return name

    def topic_id(self, topic: str) -> bytes:
        return self.topic_ids.get(topic, b"\x7f" * 16)

    def shown_topic_id(self, topic_id: bytes) -> str:
        return next((name for name, known in self.topic_ids.items() if known == topic_id), "?")


def message_of(struct_type: type[Struct], data: dict[str, Any], names: Names) -> Any:
    """Return a ``struct_type`` with the fields of ``data``; the others keep their defaults."""
    return struct_type(**{key: _value_of(key, struct_type.fields[key], value, names) for key, value in data.items()})


def _value_of(key: str, field: Field, value: Any, names: Names) -> Any:
    if field.struct_type is not None:
        if field.kind == "array":
            return [message_of(field.struct_type, one, names) for one in value]
        return message_of(field.struct_type, value, names)
    if key == "records":
        return batch_of(value, names)
    if field.kind == "uuid":
        return names.topic_id(value)
    if key in SCOPED_FIELDS and value is not None:
        return _each(names.scoped, value)
    if key in PRODUCER_ID_FIELDS:
        return _each(names.producer_id, value)
    return value


def _each(convert: Callable[[Any], Any], value: Any) -> Any:
    return [convert(one) for one in value] if isinstance(value, list) else convert(value)


def batch_of(data: dict[str, Any], names: Names) -> bytes:
    """Return a batch of ``values``; it is transactional unless ``data`` says otherwise."""
    options = {key: value for key, value in data.items() if key != "values"}
    options["producer_id"] = names.producer_id(options.get("producer_id", -1))
    options.setdefault("is_transactional", True)
    records = [
        Record(offset, time.time_ns() // 1_000_000, None, value.encode()) for offset, value in enumerate(data["values"])
    ]
    return build_batch(records, **options)


def plain(message: Struct, version: int, names: Names) -> dict[str, Any]:
    """Return what a message has of ``version``: its error codes, and the fields that differ from their defaults."""
    shown: dict[str, Any] = {}
    for key, field in message.fields.items():
        value = getattr(message, key)
        if key in LEFT_OUT or version not in field.versions:
            continue
        if key.endswith("error_code"):
            shown[key] = ErrorCode(value).name
        elif value is not None and value != field.fresh_default() and not (key == "records" and not value):
            shown[key] = _shown(key, field, value, version, names)
    if shown.get("topic") == "__consumer_offsets":
        shown["partitions"] = "by hash of the group"
    return shown


def _shown(key: str, field: Field, value: Any, version: int, names: Names) -> Any:
    if field.struct_type is not None:
        if field.kind == "array":
            return _in_order([plain(one, version, names) for one in _in_scope(value, names)])
        return plain(value, version, names)
    if field.kind == "uuid":
        return "zero" if value == ZERO_UUID else names.shown_topic_id(value)
    if key == "records":
        return [_plain_batch(batch, names) for batch in iterate_batches(bytes(value))]
    show = SHOWN.get(key)
    return value if show is None else show(value, names)


SHOWN: dict[str, Callable[[Any, Names], Any]] = {
    **dict.fromkeys(SCOPED_FIELDS, lambda value, names: names.unscoped(value)),
    **dict.fromkeys(PRODUCER_ID_FIELDS, lambda value, names: names.shown_producer_id(value)),
    **dict.fromkeys(TIME_FIELDS, lambda value, _: "time" if value > 0 else value),
    "partitions": lambda value, _: sorted(value),
}


def _in_scope(items: list[Any], names: Names) -> list[Any]:
    """Leave out the states of transactions of other runs."""
    return [
        one
        for one in items
        if type(one).__name__ != "TransactionState"
        or not one.transactional_id
        or one.transactional_id.endswith(names.suffix)
    ]


def _in_order(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort entries that Kafka returns in the order of a hash table."""
    return sorted(
        items,
        key=lambda one: [
            str(one.get(key, ""))
            for key in ("transactional_id", "name", "topic", "partition_index", "producer_id", "first_offset")
        ],
    )


def _plain_batch(batch: Any, names: Names) -> dict[str, Any]:
    shown: dict[str, Any] = {"base_offset": batch.base_offset}
    if batch.producer_id >= 0:
        shown["producer_id"] = names.shown_producer_id(batch.producer_id)
        shown["producer_epoch"] = batch.producer_epoch
    records = list(read_records(batch, size_bytes_max=1 << 20))
    if batch.is_control:
        shown["control"] = parse_control_key(records[0].key).name
        shown["coordinator_epoch"] = parse_end_transaction_value(records[0].value)
    else:
        shown["base_sequence"] = batch.base_sequence
        shown["is_transactional"] = batch.is_transactional
        shown["values"] = [(record.value or b"").decode() for record in records]
    return shown
