"""The codec: typed message classes in, straight-line encode and decode functions out.

A message is declared once for all of its versions (`fields`), as a `Message` made of `Struct` (`message`). The first
time a version is used, `generate_encoder` and `generate_decoder` write the Python source of one function for exactly
that version, compile it and keep it: nothing is interpreted per field at run time.
"""

from ottla.wire.codec.fields import (
    array,
    boolean,
    bytes_,
    float64,
    int8,
    int16,
    int32,
    int64,
    records,
    string,
    struct,
    uint16,
    uuid,
)
from ottla.wire.codec.message import Message, Struct
from ottla.wire.codec.primitives import EncodedArray, FieldNotInVersionError
from ottla.wire.codec.versions import VersionRange

__all__ = [
    "EncodedArray",
    "FieldNotInVersionError",
    "Message",
    "Struct",
    "VersionRange",
    "array",
    "boolean",
    "bytes_",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "records",
    "string",
    "struct",
    "uint16",
    "uuid",
]
