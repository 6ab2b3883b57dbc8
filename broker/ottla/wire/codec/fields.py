"""Declarations of fields: ``partition: int = int32("0+")``.

The annotation is for readers and mypy; the call defines the bytes on the wire: the kind, the versions that have the
field, in which of them it may be null, its default and, for a tagged field (KIP-482), its tag. Encoding a field that
the version lacks is an error unless it has its default or is ``ignorable``.

The functions return Any so that the declared annotation stands; `tests/broker/wire/codec` checks that the two agree.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.types import ZERO_UUID
from ottla.wire.codec.versions import VersionRange, parse_versions

if TYPE_CHECKING:
    from ottla.wire.codec.message import Struct

# kind -> format character of `struct` and size in bytes
FIXED_KINDS = {
    "boolean": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}


@dataclass(frozen=True, slots=True)
class Field:
    """One declared field.

    ``kind`` is a key of `FIXED_KINDS` or one of string, bytes, records, struct, array. ``element`` is the kind of an
    array's elements; ``struct_type`` the class of a struct or of an array of structs. ``tag`` is -1 where the field is
    never tagged; in ``tagged`` versions it is in the tagged section instead of in line. ``encodable``: an
    `EncodedArray` may replace the list.
    """

    kind: str
    versions: VersionRange
    nullable: VersionRange
    tagged: VersionRange
    default: object
    tag: int
    ignorable: bool
    flexible: VersionRange | None = None
    element: str = ""
    struct_type: "type[Struct] | None" = None
    encodable: bool = False

    def fresh_default(self) -> object:
        """Return the default; a new object if it is mutable."""
        if self.default is not None:
            if self.kind == "array":
                return []
            if self.kind == "struct" and self.struct_type is not None:
                return self.struct_type()
        return self.default


def _field(
    kind: str,
    versions: str,
    default: object,
    *,
    nullable: str = "",
    tag: int = -1,
    tagged: str = "",
    ignorable: bool = False,
    flexible: str | None = None,
    element: str = "",
    struct_type: "type[Struct] | None" = None,
    encodable: bool = False,
) -> Any:
    return Field(
        kind=kind,
        versions=parse_versions(versions),
        nullable=parse_versions(nullable),
        tagged=parse_versions(tagged),
        default=default,
        tag=tag,
        ignorable=ignorable,
        flexible=None if flexible is None else parse_versions(flexible),
        element=element,
        struct_type=struct_type,
        encodable=encodable,
    )


def boolean(versions: str, *, default: bool = False, tag: int = -1, tagged: str = "", ignorable: bool = False) -> Any:
    """One byte, 0 or 1; any other byte reads as true."""
    return _field("boolean", versions, default, tag=tag, tagged=tagged, ignorable=ignorable)


def int8(versions: str, *, default: int = 0, tag: int = -1, tagged: str = "", ignorable: bool = False) -> Any:
    return _field("int8", versions, default, tag=tag, tagged=tagged, ignorable=ignorable)


def int16(versions: str, *, default: int = 0, tag: int = -1, tagged: str = "", ignorable: bool = False) -> Any:
    return _field("int16", versions, default, tag=tag, tagged=tagged, ignorable=ignorable)


def uint16(versions: str, *, default: int = 0, tag: int = -1, tagged: str = "", ignorable: bool = False) -> Any:
    return _field("uint16", versions, default, tag=tag, tagged=tagged, ignorable=ignorable)


def int32(versions: str, *, default: int = 0, tag: int = -1, tagged: str = "", ignorable: bool = False) -> Any:
    return _field("int32", versions, default, tag=tag, tagged=tagged, ignorable=ignorable)


def int64(versions: str, *, default: int = 0, tag: int = -1, tagged: str = "", ignorable: bool = False) -> Any:
    return _field("int64", versions, default, tag=tag, tagged=tagged, ignorable=ignorable)


def float64(versions: str, *, default: float = 0.0, tag: int = -1, tagged: str = "", ignorable: bool = False) -> Any:
    return _field("float64", versions, default, tag=tag, tagged=tagged, ignorable=ignorable)


def uuid(versions: str, *, tag: int = -1, tagged: str = "", ignorable: bool = False) -> Any:
    """16 bytes; the default is the zero id."""
    return _field("uuid", versions, ZERO_UUID, tag=tag, tagged=tagged, ignorable=ignorable)


def string(
    versions: str,
    *,
    nullable: str = "",
    default: str | None = "",
    tag: int = -1,
    tagged: str = "",
    ignorable: bool = False,
    flexible: str | None = None,
) -> Any:
    """UTF-8 with an int16 length, or a compact length in flexible versions (``flexible`` overrides the message's)."""
    return _field(
        "string",
        versions,
        default,
        nullable=nullable,
        tag=tag,
        tagged=tagged,
        ignorable=ignorable,
        flexible=flexible,
    )


def bytes_(
    versions: str,
    *,
    nullable: str = "",
    default: bytes | None = b"",
    tag: int = -1,
    tagged: str = "",
    ignorable: bool = False,
) -> Any:
    """Bytes with an int32 or compact length; decoding copies them."""
    return _field("bytes", versions, default, nullable=nullable, tag=tag, tagged=tagged, ignorable=ignorable)


def records(versions: str, *, nullable: str = "", ignorable: bool = False) -> Any:
    """Record batches: decoded as a view on the request's buffer, encoded from a buffer or a file slice; no copy."""
    return _field("records", versions, None, nullable=nullable, ignorable=ignorable)


def struct(
    struct_type: "type[Struct]",
    versions: str,
    *,
    nullable: str = "",
    default: object = ...,
    tag: int = -1,
    tagged: str = "",
    ignorable: bool = False,
) -> Any:
    """A nested struct; ``default=None`` if it is null by default."""
    return _field(
        "struct",
        versions,
        default,
        nullable=nullable,
        tag=tag,
        tagged=tagged,
        ignorable=ignorable,
        struct_type=struct_type,
    )


def array(
    element: "str | type[Struct]",
    versions: str,
    *,
    nullable: str = "",
    default: object = (),
    tag: int = -1,
    tagged: str = "",
    ignorable: bool = False,
    encodable: bool = False,
) -> Any:
    """A list of structs, or of a fixed kind or ``"string"``; ``default=None`` if it is null by default.

    ``encodable``: long and often sent unchanged, so that the sender may cache it as an `EncodedArray`.
    """
    is_kind = isinstance(element, str)
    return _field(
        "array",
        versions,
        default,
        nullable=nullable,
        tag=tag,
        tagged=tagged,
        ignorable=ignorable,
        element=element if isinstance(element, str) else "struct",
        struct_type=None if is_kind else element,  # type: ignore[arg-type]
        encodable=encodable,
    )
