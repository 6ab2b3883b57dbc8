"""Generate the encode function of one message class in one version: a plain one, or a resumable one for many entries.

Runs of fixed-size fields become one `struct.pack`; lengths of non-flexible strings and arrays join the run before them.
Nested structs are written in line. Record bytes never enter ``out``: they become splices, and so do long arrays that
are encoded already, whose bytes all responses share.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from ottla.wire.codec import primitives
from ottla.wire.codec.fields import FIXED_KINDS, Field
from ottla.wire.codec.source import FunctionSource

if TYPE_CHECKING:
    from ottla.wire.codec.message import Encoder, Message, ResumableEncoder, Struct


def make_encoder(message_type: "type[Message]", version: int) -> "Encoder":
    """Return ``encode(message, out, splices, room)`` for ``version``; ``room`` is for entries of arrays."""
    made: Encoder = _make(message_type, version, is_resumable=False)
    return made


def make_resumable_encoder(message_type: "type[Message]", version: int) -> "ResumableEncoder":
    """Return the same as a generator function, without a bound for entries."""
    made: ResumableEncoder = _make(message_type, version, is_resumable=True)
    return made


def _make(message_type: "type[Message]", version: int, *, is_resumable: bool) -> Any:
    name = f"encode_{message_type.__name__}_v{version}"
    source = _start(name, "message, out, splices, room", is_resumable=is_resumable)
    writer = _StructWriter(source, version, flexible=version in message_type.flexible)
    writer.struct("message", message_type)
    if is_resumable:
        source.line("yield")  # a generator also if the version has no array
    source.line("return None")
    return source.compile()


def make_array_encoder(message_type: "type[Message]", field: Field, version: int) -> "Encoder":
    """Return ``encode(items, out, splices, room)`` for an array somewhere in ``version`` of the message."""
    source = _start(f"encode_array_of_{message_type.__name__}_v{version}", "items, out, splices, room")
    writer = _StructWriter(source, version, flexible=version in message_type.flexible)
    writer.array("items", field)
    source.line("return None")
    made: Encoder = source.compile()
    return made


def _start(name: str, parameters: str, *, is_resumable: bool = False) -> FunctionSource:
    source = FunctionSource(name, parameters, is_resumable=is_resumable)
    source.scope.update(
        UV=primitives.UVARINT_BYTES,
        uvarint=primitives.uvarint,
        string_length=primitives.string_length,
        pack_many=primitives.pack_many,
        pack_many_in_steps=primitives.pack_many_in_steps,
        reject_entries=primitives.reject_entries,
        items_in_steps=primitives.items_in_steps,
        reject_field=primitives.reject_field,
        write_tags=primitives.write_tags,
        EncodedArray=primitives.EncodedArray,
        reject_encoded=primitives.reject_encoded,
    )
    return source


class _StructWriter:
    """Writes structs, field by field; ``_run`` has the pending fixed-size values, which are packed together.

    ``_is_in_tag`` is true within a tagged field, whose bytes are collected first, because their size precedes them.
    """

    def __init__(self, source: FunctionSource, version: int, *, flexible: bool) -> None:
        self.source = source
        self.version = version
        self.flexible = flexible
        self._run: list[tuple[str, str]] = []
        self._is_in_tag = False

    def struct(self, owner: str, struct_type: "type[Struct]") -> None:
        """Write all fields of the struct in local ``owner`` and, in flexible versions, its tagged section."""
        tagged: list[tuple[str, Field]] = []
        for key, field in struct_type.fields.items():
            if self.version in field.tagged:
                tagged.append((key, field))
            elif self.version in field.versions:
                self._field(f"{owner}.{key}", field)
            elif not field.ignorable:
                self._reject_unless_default(f"{owner}.{key}", field)
        if not self.flexible:
            self._flush()
        elif tagged:
            self._flush()
            self._tagged_section(owner, tagged)
        else:
            run = list(self._run)
            with self.source.block(f"if {owner}.unknown_tags is None:"):
                self._run.append(("b", "0"))
                self._flush()
            with self.source.block("else:"):
                self._run = run
                self._flush()
                self.source.line(f"write_tags(out, list({owner}.unknown_tags.items()))")

    def _flush(self) -> None:
        if self._run:
            form = "".join(form for form, _ in self._run)
            values = ", ".join(value for _, value in self._run)
            self.source.line(f"out += {self.source.pack(form)}({values})")
            self._run = []

    def _reject_unless_default(self, value: str, field: Field) -> None:
        with self.source.block(f"if {self._differs(value, field)}:"):
            self.source.line(f"reject_field({value.split('.', 1)[1]!r}, {self.version})")

    def _differs(self, value: str, field: Field) -> str:
        """Return the condition that ``value`` is not the field's default."""
        default = field.fresh_default()
        if default is None:
            return f"{value} is not None"
        if default == []:
            return f"{value} is None or {value}" if field.nullable.last >= 0 else value
        if field.struct_type is not None and field.nullable.last < 0:
            return self._struct_differs(value, field.struct_type)
        return f"{value} != {self.source.constant('default', default)}"

    def _struct_differs(self, value: str, struct_type: "type[Struct]") -> str:
        """Compare a struct with its default field by field: it is nearly always the default, on hot paths too."""
        fields = [f"({self._differs(f'{value}.{key}', field)})" for key, field in struct_type.fields.items()]
        return " or ".join([*fields, f"{value}.unknown_tags"])

    def array(self, value: str, field: Field) -> None:
        """Write an array that is not encoded yet."""
        self._array(value, field, flexible=self.flexible, nullable=self.version in field.nullable)

    def _field(self, value: str, field: Field, *, is_tagged: bool = False) -> None:
        flexible = self.flexible and (field.flexible is None or self.version in field.flexible)
        nullable = self.version in field.nullable
        if field.kind in FIXED_KINDS:
            self._run.append((FIXED_KINDS[field.kind][0], value))
        elif field.kind == "string":
            self._string(value, flexible=flexible, nullable=nullable)
        elif field.kind in ("bytes", "records"):
            self._bytes(value, field.kind, flexible=flexible, nullable=nullable)
        elif field.kind == "struct":
            self._nested(value, field, nullable=nullable, null=b"\x00" if is_tagged else b"\xff")
        elif field.encodable:
            self._encodable(value, field, flexible=flexible, nullable=nullable)
        else:
            self._array(value, field, flexible=flexible, nullable=nullable)

    def _length(self, size: str, form: str, *, flexible: bool) -> None:
        if flexible:
            self._flush()
            count = self.source.local("n")
            self.source.line(f"{count} = {size} + 1")
            write = "string_length" if form == "h" else "uvarint"
            self.source.line(f"out += UV[{count}] if {count} < 128 else {write}({count})")
        else:
            self._run.append((form, size))
            self._flush()

    def _or_null(self, local: str, form: str, *, flexible: bool, nullable: bool) -> AbstractContextManager[None]:
        """Open the block for a value that is not null; if null is allowed, write the null case before it."""
        if not nullable:
            return nullcontext()
        self._flush()
        null = b"\x00" if flexible else b"\xff" * (2 if form == "h" else 4)
        with self.source.block(f"if {local} is None:"):
            self.source.line(f"out += {null!r}")
        return self.source.block("else:")

    def _string(self, value: str, *, flexible: bool, nullable: bool) -> None:
        text = self.source.local("s")
        if nullable:
            self.source.line(f"{text} = {value}")
            with self._or_null(text, "h", flexible=flexible, nullable=True):
                self.source.line(f"{text} = {text}.encode()")
                self._length(f"len({text})", "h", flexible=flexible)
                self.source.line(f"out += {text}")
        else:
            self.source.line(f"{text} = {value}.encode()")
            self._length(f"len({text})", "h", flexible=flexible)
            self.source.line(f"out += {text}")

    def _bytes(self, value: str, kind: str, *, flexible: bool, nullable: bool) -> None:
        data = self.source.local("b")
        self.source.line(f"{data} = {value}")
        with self._or_null(data, "i", flexible=flexible, nullable=nullable):
            self._length(f"len({data})", "i", flexible=flexible)
            if kind == "records":
                # 90,000 partitions without records would give as many empty pieces to send.
                with self.source.block(f"if len({data}):"):
                    self.source.line(f"splices.append((len(out), {data}))")
            else:
                self.source.line(f"out += {data}")

    def _nested(self, value: str, field: Field, *, nullable: bool, null: bytes) -> None:
        nested = self.source.local("m")
        self.source.line(f"{nested} = {value}")
        assert field.struct_type is not None
        if not nullable:
            self.struct(nested, field.struct_type)
            return
        self._flush()
        with self.source.block(f"if {nested} is None:"):
            self.source.line(f"out += {null!r}")
        with self.source.block("else:"):
            self.source.line(r"out += b'\x01'")
            self.struct(nested, field.struct_type)

    def _array(self, value: str, field: Field, *, flexible: bool, nullable: bool) -> None:
        items = self.source.local("a")
        self.source.line(f"{items} = {value}")
        with self._or_null(items, "i", flexible=flexible, nullable=nullable):
            self._length(f"len({items})", "i", flexible=flexible)
            if field.element in FIXED_KINDS:
                self._fixed_items(items, FIXED_KINDS[field.element][0])
                return
            if not self.source.is_resumable:
                self.source.line(f"room -= len({items})")
                with self.source.block("if room < 0:"):
                    self.source.line("reject_entries()")
            item = self.source.local("m")
            each = f"items_in_steps({items})" if self.source.is_resumable else items
            with self.source.block(f"for {item} in {each}:"):
                self.source.slice_point()
                if field.struct_type is not None:
                    self.struct(item, field.struct_type)
                    self._flush()
                    self.source.line("pass")  # for a struct without fields in this version
                else:
                    self._string(item, flexible=flexible, nullable=False)

    def _fixed_items(self, items: str, form: str) -> None:
        with self.source.block(f"if {items}:"):
            if self.source.is_resumable:
                self.source.line(f"yield from pack_many_in_steps({form!r}, {items}, out)")
            else:
                self.source.line(f"out += pack_many({form!r}, {items})")

    def _encodable(self, value: str, field: Field, *, flexible: bool, nullable: bool) -> None:
        self._flush()
        encoded = self.source.local("e")
        self.source.line(f"{encoded} = {value}")
        with self.source.block(f"if {encoded}.__class__ is EncodedArray:"):
            with self.source.block(f"if {encoded}.version != {self.version}:"):
                self.source.line(f"reject_encoded({value.split('.', 1)[1]!r}, {encoded}.version, {self.version})")
            is_shared = "False" if self._is_in_tag else f"len({encoded}.data) >= {primitives.SHARED_BYTES_MIN}"
            with self.source.block(f"if {is_shared}:"):
                self.source.line(f"splices.append((len(out), {encoded}.data))")
            with self.source.block("else:"):
                self.source.line(f"out += {encoded}.data")
        with self.source.block("else:"):
            self._array(encoded, field, flexible=flexible, nullable=nullable)

    def _tagged_section(self, owner: str, tagged: list[tuple[str, Field]]) -> None:
        tags = self.source.local("tags")
        self.source.line(f"{tags} = [] if {owner}.unknown_tags is None else list({owner}.unknown_tags.items())")
        for key, field in tagged:
            with self.source.block(f"if {self._differs(f'{owner}.{key}', field)}:"):
                outer = self.source.local("outer")
                self.source.line(f"{outer} = out")
                self.source.line("out = bytearray()")
                was_in_tag, self._is_in_tag = self._is_in_tag, True
                self._field(f"{owner}.{key}", field, is_tagged=True)
                self._flush()
                self._is_in_tag = was_in_tag
                self.source.line(f"{tags}.append(({field.tag}, out))")
                self.source.line(f"out = {outer}")
        with self.source.block(f"if {tags}:"):
            self.source.line(f"write_tags(out, {tags})")
        with self.source.block("else:"):
            self.source.line(r"out += b'\x00'")
