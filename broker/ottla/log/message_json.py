"""A message as the JSON that Kafka's tools print: field names in camel case, in the order of the declaration.

Tagged fields appear only when they differ from their default, fields of other versions not at all; ids are base64url,
bytes are base64. Source: the JsonConverter classes that Kafka's generator makes.
"""

import base64
import json
import re
from typing import cast

from ottla.ports import Buffer
from ottla.types import Uuid, format_uuid
from ottla.wire.codec import Message, Struct
from ottla.wire.codec.fields import Field

_SEPARATOR = re.compile("_(.)")
_ODD_NAMES = {"kraft_version": "kRaftVersion", "kraft_version_feature": "kRaftVersionFeature"}


def message_json(message: Message, version: int) -> str:
    """Return ``message`` in ``version`` as one line of JSON, without blanks."""
    return json.dumps(_struct(message, version), separators=(",", ":"), ensure_ascii=False)


def _struct(struct: Struct, version: int) -> dict[str, object]:
    shown = {}
    for name, field in struct.fields.items():
        if version not in field.versions:
            continue
        value = getattr(struct, name)
        if field.tag >= 0 and version in field.tagged and value == field.fresh_default():
            continue
        shown[_ODD_NAMES.get(name) or _SEPARATOR.sub(lambda match: match[1].upper(), name)] = _value(
            value, field, version
        )
    return shown


def _value(value: object, field: Field, version: int) -> object:
    if value is None:
        return None
    if field.kind == "array":
        return [_single(element, field.element, version) for element in cast(list[object], value)]
    return _single(value, field.kind, version)


def _single(value: object, kind: str, version: int) -> object:
    if isinstance(value, Struct):
        return _struct(value, version)
    if kind == "uuid":
        return format_uuid(Uuid(cast(bytes, value)))
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(cast(Buffer, value)).decode("ascii")
    return value
