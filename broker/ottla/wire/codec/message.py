"""`Struct` and `Message`: the base classes of declared messages.

The metaclass replaces the `Field` declarations of the class body with slots and generates a keyword-only
``__init__``. Every field has a default, as in Kafka's messages; decoding leaves fields that a version lacks at theirs.
"""

import struct as struct_module
from collections.abc import Callable, Generator, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, dataclass_transform

from ottla.errors import ProtocolError
from ottla.ports import Buffer, Chunk, FileSlice
from ottla.wire.codec.fields import Field
from ottla.wire.codec.primitives import EncodedArray, TooManyEntriesError, run_steps, uvarint
from ottla.wire.codec.versions import VersionRange, parse_versions

Records: TypeAlias = Buffer | FileSlice
"""Record batches: a view on the request's buffer, or a slice of a segment to send."""

Splice: TypeAlias = tuple[int, Records]
"""Bytes to insert at a position of the encoded ones: records, or an array that was encoded before."""

_ARRAY_LENGTH = struct_module.Struct(">i")

NO_ENTRIES_LIMIT = 2**62

Encoder: TypeAlias = Callable[[Any, bytearray, list[Splice], int], None]
Decoder: TypeAlias = Callable[[Buffer, int, int, int], tuple[Any, int]]
ResumableEncoder: TypeAlias = Callable[[Any, bytearray, list[Splice], int], Generator[None, None, None]]
ResumableDecoder: TypeAlias = Callable[[Buffer, int, int, int, Any], Generator[None, None, tuple[Any, int]]]

_NOT_ENCODABLE = (struct_module.error, TypeError, AttributeError, OverflowError)
_NOT_DECODABLE = (IndexError, struct_module.error, UnicodeDecodeError, ProtocolError)


@dataclass_transform(kw_only_default=True)
class StructMeta(type):
    """Turns `Field` declarations into slots and an ``__init__``."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> "StructMeta":
        fields = {key: value for key, value in namespace.items() if isinstance(value, Field)}
        for key in fields:
            del namespace[key]
        namespace["__slots__"] = tuple(fields) if bases else ("unknown_tags",)
        namespace["fields"] = fields
        namespace["__init__"] = _init_on_first_use(name, fields)
        return super().__new__(mcs, name, bases, namespace, **options)


def _init_on_first_use(name: str, fields: dict[str, Field]) -> Callable[..., None]:
    """Return an ``__init__`` that replaces itself by that of `_make_init`: a node uses few of hundreds of classes."""

    def first_init(self: Any, **values: Any) -> None:
        owner: Any = next(each for each in type(self).__mro__ if each.__dict__.get("__init__") is first_init)
        owner.__init__ = _make_init(name, fields)
        owner.__init__(self, **values)

    return first_init


def _make_init(name: str, fields: dict[str, Field]) -> Callable[..., None]:
    """Return an ``__init__`` that takes every field by keyword."""
    scope: dict[str, Any] = {"MISSING": ...}
    parameters, lines = [], []
    for key, field in fields.items():
        if field.default is not None and field.kind in ("array", "struct"):
            scope[f"fresh_{key}"] = list if field.kind == "array" else fresh_maker(field.struct_type)
            parameters.append(f"{key}=MISSING")
            lines.append(f"    self.{key} = fresh_{key}() if {key} is MISSING else {key}")
        else:
            scope[f"default_{key}"] = field.default
            parameters.append(f"{key}=default_{key}")
            lines.append(f"    self.{key} = {key}")
    star = "*, " if parameters else ""
    source = f"def __init__(self, {star}{', '.join(parameters)}):\n" + "\n".join(
        [*lines, "    self.unknown_tags = None"]
    )
    exec(compile(source, f"<init of {name}>", "exec"), scope)  # noqa: S102 - our own source, as dataclasses does
    made: Callable[..., None] = scope["__init__"]
    return made


@cache
def fresh_maker(struct_type: "type[Struct]") -> Callable[[], Any]:
    """Return a function that creates such a struct with default values; it is quicker than calling the class."""
    scope: dict[str, Any] = {"new": object.__new__, "struct_type": struct_type}
    lines = []
    for key, field in struct_type.fields.items():
        if field.default is not None and field.kind == "array":
            lines.append(f"    made.{key} = []")
        elif field.default is not None and field.struct_type is not None:
            scope[f"fresh_{key}"] = fresh_maker(field.struct_type)
            lines.append(f"    made.{key} = fresh_{key}()")
        else:
            scope[f"default_{key}"] = field.default
            lines.append(f"    made.{key} = default_{key}")
    source = "\n".join(
        ["def fresh():", "    made = new(struct_type)", *lines, "    made.unknown_tags = None", "    return made"]
    )
    exec(compile(source, f"<fresh {struct_type.__name__}>", "exec"), scope)  # noqa: S102 - our own source, as above
    made: Callable[[], Any] = scope["fresh"]
    return made


class Struct(metaclass=StructMeta):
    """A group of fields. Compares by value; ``unknown_tags`` keeps tagged fields that this release does not know."""

    fields: ClassVar[dict[str, Field]]
    if TYPE_CHECKING:
        unknown_tags: dict[int, bytes] | None = None

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, key) == getattr(other, key) for key in self.fields) and (
            (self.unknown_tags or None) == (other.unknown_tags or None)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = []
        for key, field in self.fields.items():
            value = getattr(self, key)
            if isinstance(value, memoryview):
                shown.append(f"{key}=<{len(value)} bytes>")
            elif value != field.fresh_default():
                shown.append(f"{key}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


class Message(Struct):
    """A top-level struct: a request, response, header or record value.

    ``api_key`` is -1 for other messages. ``versions`` are those Kafka 4.3 defines; ``flexible`` those with compact
    lengths and tagged fields (KIP-482). ``served_on`` names the listeners, broker or controller, that serve it.
    ``latest_version_unstable``: the last version is defined but not to be advertised.
    """

    api_key: ClassVar[int] = -1
    versions: ClassVar[VersionRange]
    flexible: ClassVar[VersionRange]
    served_on: ClassVar[tuple[str, ...]] = ()
    latest_version_unstable: ClassVar[bool] = False
    _encoders: ClassVar[dict[int, Encoder]]
    _decoders: ClassVar[dict[int, Decoder]]
    _resumable_encoders: ClassVar[dict[int, ResumableEncoder]]
    _resumable_decoders: ClassVar[dict[int, ResumableDecoder]]
    _array_encoders: ClassVar[dict[tuple[int, str], Encoder]]

    def __init_subclass__(
        cls,
        *,
        versions: str,
        flexible: str,
        api_key: int = -1,
        served_on: str = "",
        latest_version_unstable: bool = False,
    ) -> None:
        super().__init_subclass__()
        cls.api_key = api_key
        cls.versions = parse_versions(versions)
        cls.flexible = parse_versions(flexible)
        cls.served_on = tuple(served_on.split())
        cls.latest_version_unstable = latest_version_unstable
        cls._encoders = {}
        cls._decoders = {}
        cls._resumable_encoders = {}
        cls._resumable_decoders = {}
        cls._array_encoders = {}

    def write(
        self, version: int, out: bytearray, splices: list[Splice], *, entries_max: int = NO_ENTRIES_LIMIT
    ) -> None:
        """Append this message to ``out``; record bytes go to ``splices`` instead, each with its position in ``out``.

        An `EncodedArray` of `SHARED_BYTES_MIN` bytes and more goes there too.

        Raises:
            FieldNotInVersionError: a field that the version lacks has a value.
            TooManyEntriesError: its arrays have more than ``entries_max`` entries together; `write_in_steps` has no
                such bound. The contents of ``out`` and ``splices`` are then invalid.
            ValueError: any other value that the version cannot represent: a null, a number out of range.
        """
        encode = self._encoders.get(version) or self._make_encoder(version)
        try:
            encode(self, out, splices, entries_max)
        except _NOT_ENCODABLE as error:
            raise self._encode_error(version, error) from error

    def write_in_steps(self, version: int, out: bytearray, splices: list[Splice]) -> Generator[None, None, None]:
        """Write as `write` does, without a bound for entries; yield after a few entries each."""
        encode = self._resumable_encoders.get(version) or self._make_resumable_encoder(version)
        try:
            yield from encode(self, out, splices, NO_ENTRIES_LIMIT)
        except _NOT_ENCODABLE as error:
            raise self._encode_error(version, error) from error

    def _encode_error(self, version: int, error: Exception) -> ValueError:
        return ValueError(f"{type(self).__name__} v{version} cannot be encoded: {error}")

    def encode(self, version: int) -> bytes:
        """Return this message's bytes, records included; raises ValueError as `write` does."""
        out = bytearray()
        splices: list[Splice] = []
        try:
            self.write(version, out, splices)
        except TooManyEntriesError:
            out, splices = bytearray(), []
            run_steps(self.write_in_steps(version, out, splices))
        if not splices:
            return bytes(out)
        return b"".join(
            chunk.read() if isinstance(chunk, FileSlice) else chunk for chunk in splice_chunks(out, splices)
        )

    @classmethod
    def encode_array(cls, version: int, owner: type[Struct], key: str, items: list[Any] | None) -> EncodedArray:
        """Return ``items`` encoded as the field ``key`` of ``owner``, a struct of this message, to be sent many times.

        The result's `EncodedArray.as_list` replaces ``items`` in messages of this type and version.

        Raises:
            ValueError: as `write`, or the field is not declared ``encodable``.
        """
        field = owner.fields[key]
        if not field.encodable:
            raise ValueError(f"{owner.__name__}.{key} is not declared encodable")
        encode = cls._array_encoders.get((version, f"{owner.__name__}.{key}"))
        encode = encode or cls._make_array_encoder(version, owner, key)
        out = bytearray()
        try:
            encode(items, out, [], NO_ENTRIES_LIMIT)
        except _NOT_ENCODABLE as error:
            raise ValueError(f"{owner.__name__}.{key} v{version} cannot be encoded: {error}") from error
        return EncodedArray(version, bytes(out))

    @classmethod
    def encode_item(cls, version: int, owner: type[Struct], key: str, item: Any) -> bytes:
        """Return ``item`` encoded as one of the field ``key`` of ``owner``; raises as `encode_array`."""
        data = cls.encode_array(version, owner, key, [item]).data
        return data[1:] if version in cls.flexible else data[_ARRAY_LENGTH.size :]

    @classmethod
    def join_items(cls, version: int, item_count: int, data: Iterable[bytes]) -> EncodedArray:
        """Return the array of ``item_count`` items whose bytes, from `encode_item`, are concatenated in ``data``."""
        is_flexible = version in cls.flexible
        length = uvarint(item_count + 1) if is_flexible else _ARRAY_LENGTH.pack(item_count)
        return EncodedArray(version, b"".join((length, *data)))

    @classmethod
    def decode_from(
        cls, buffer: Buffer, version: int, position: int = 0, *, entries_max: int = NO_ENTRIES_LIMIT
    ) -> tuple[Self, int]:
        """Read a message at ``position``; return it and the position behind it.

        ``entries_max`` limits the entries of its arrays (and tagged fields) together; required for messages of
        clients.

        Raises:
            TooManyEntriesError: there are more entries; nothing was allocated for those above ``entries_max``.
            ProtocolError: the bytes are not such a message; nothing was allocated for a length that they do not have.
        """
        decode = cls._decoders.get(version) or cls._make_decoder(version)
        try:
            return decode(buffer, position, len(buffer), entries_max)
        except _NOT_DECODABLE as error:
            raise cls._decode_error(version, error) from error

    @classmethod
    def decode_in_steps(
        cls,
        buffer: Buffer,
        version: int,
        position: int = 0,
        *,
        entries_max: int = NO_ENTRIES_LIMIT,
        into: Self | None = None,
    ) -> Generator[None, None, tuple[Self, int]]:
        """Decode as `decode_from` does; yield after a few entries each. ``buffer`` must not change meanwhile.

        ``into`` is an empty message to fill; after an error it has the entries read so far (`disposal`).
        """
        decode = cls._resumable_decoders.get(version) or cls._make_resumable_decoder(version)
        try:
            message = object.__new__(cls) if into is None else into
            return (yield from decode(buffer, position, len(buffer), entries_max, message))
        except _NOT_DECODABLE as error:
            raise cls._decode_error(version, error) from error

    @classmethod
    def _decode_error(cls, version: int, error: Exception) -> ProtocolError:
        name = f"{cls.__name__} v{version}"
        if isinstance(error, UnicodeDecodeError):
            return ProtocolError(f"{name} has a string that is not UTF-8: {error.reason}")
        if isinstance(error, ProtocolError):
            return type(error)(f"{name}: {error}")
        return ProtocolError(f"{name} ends too early: {error}")

    @classmethod
    def decode(cls, buffer: Buffer, version: int, position: int = 0) -> Self:
        """Read a message that fills the rest of ``buffer``.

        Raises:
            ProtocolError: as `decode_from`, or bytes are left over.
        """
        message, position = cls.decode_from(buffer, version, position)
        if position != len(buffer):
            raise ProtocolError(f"{cls.__name__} v{version} is followed by {len(buffer) - position} bytes too many")
        return message

    @classmethod
    def _make_encoder(cls, version: int) -> Encoder:
        from ottla.wire.codec.generate_encoder import make_encoder

        cls._require(version)
        made = cls._encoders[version] = make_encoder(cls, version)
        return made

    @classmethod
    def _make_resumable_encoder(cls, version: int) -> ResumableEncoder:
        from ottla.wire.codec.generate_encoder import make_resumable_encoder

        cls._require(version)
        made = cls._resumable_encoders[version] = make_resumable_encoder(cls, version)
        return made

    @classmethod
    def _make_array_encoder(cls, version: int, owner: type[Struct], key: str) -> Encoder:
        from ottla.wire.codec.generate_encoder import make_array_encoder

        cls._require(version)
        place = version, f"{owner.__name__}.{key}"
        made = cls._array_encoders[place] = make_array_encoder(cls, owner.fields[key], version)
        return made

    @classmethod
    def _make_decoder(cls, version: int) -> Decoder:
        from ottla.wire.codec.generate_decoder import make_decoder

        cls._require(version)
        made = cls._decoders[version] = make_decoder(cls, version)
        return made

    @classmethod
    def _make_resumable_decoder(cls, version: int) -> ResumableDecoder:
        from ottla.wire.codec.generate_decoder import make_resumable_decoder

        cls._require(version)
        made = cls._resumable_decoders[version] = make_resumable_decoder(cls, version)
        return made

    @classmethod
    def _require(cls, version: int) -> None:
        if version not in cls.versions:
            raise ValueError(f"{cls.__name__} has versions {cls.versions}, not {version}")


def splice_chunks(out: bytearray, splices: list[Splice]) -> list[Chunk]:
    """Return ``out`` split at the splices with their bytes in between, in the order of sending."""
    if not splices:
        return [out]
    view = memoryview(out)
    chunks: list[Chunk] = []
    start = 0
    for position, data in splices:
        chunks.append(view[start:position])
        if len(data):
            chunks.append(data)
        start = position
    if start < len(out):
        chunks.append(view[start:])
    return chunks
