"""Generate the decode function of one message class in one version: a plain one, or a resumable one for many entries.

Runs of fixed-size fields become one `struct.unpack_from` straight into the slots. Every claimed length is compared
with the bytes that are left before anything is allocated for it, and all entries of arrays are counted: as objects
they take up to a hundred times their bytes. Running off the end raises IndexError or struct.error, which
`Message.decode_from` turns into a ProtocolError.
"""

from typing import TYPE_CHECKING, Any

from ottla.wire.codec import primitives
from ottla.wire.codec.fields import FIXED_KINDS, Field
from ottla.wire.codec.message import fresh_maker
from ottla.wire.codec.source import FunctionSource

if TYPE_CHECKING:
    from ottla.wire.codec.message import Decoder, Message, ResumableDecoder, Struct


def make_decoder(message_type: "type[Message]", version: int) -> "Decoder":
    """Return ``decode(buffer, position, end, room) -> (message, position)``; ``room`` is for entries of arrays."""
    made: Decoder = _make(message_type, version, is_resumable=False)
    return made


def make_resumable_decoder(message_type: "type[Message]", version: int) -> "ResumableDecoder":
    """Return the same as a generator function, whose last parameter is the empty ``message`` to fill."""
    made: ResumableDecoder = _make(message_type, version, is_resumable=True)
    return made


def _make(message_type: "type[Message]", version: int, *, is_resumable: bool) -> Any:
    name = f"decode_{message_type.__name__}_v{version}"
    parameters = "buffer, position, end, room, message" if is_resumable else "buffer, position, end, room"
    source = FunctionSource(name, parameters, is_resumable=is_resumable)
    source.scope.update(
        new=object.__new__,
        read_uvarint=primitives.read_uvarint,
        read_string_length=primitives.read_string_length,
        unpack_many=primitives.unpack_many,
        reject_null=primitives.reject_null,
        reject_length=primitives.reject_length,
        reject_entry_count=primitives.reject_entry_count,
        reject_tag=primitives.reject_tag,
        reject_tag_size=primitives.reject_tag_size,
        keep_unknown_tag=primitives.keep_unknown_tag,
        read_unknown_tags=primitives.read_unknown_tags,
        read_unknown_tags_in_steps=primitives.read_unknown_tags_in_steps,
        unpack_many_in_steps=primitives.unpack_many_in_steps,
    )
    reader = _StructReader(source, version, flexible=version in message_type.flexible)
    if not is_resumable:
        source.line(f"message = new({source.constant('type', message_type)})")
    reader.struct("message", message_type)
    if is_resumable:
        source.line("yield")  # a generator also if the version has no array
    source.line("return message, position")
    return source.compile()


class _StructReader:
    """Reads structs, field by field; ``_run`` has the pending fixed-size targets, which are unpacked together."""

    def __init__(self, source: FunctionSource, version: int, *, flexible: bool) -> None:
        self.source = source
        self.version = version
        self.flexible = flexible
        self._run: list[tuple[str, str, int]] = []

    def struct(self, owner: str, struct_type: "type[Struct]") -> None:
        """Fill the new object in local ``owner``; fields that the version lacks get their default."""
        self.source.line(f"{owner}.unknown_tags = None")
        tagged: list[tuple[str, Field]] = []
        other_versions_tags: dict[int, str] = {}
        for key, field in struct_type.fields.items():
            if self.version in field.versions and self.version not in field.tagged:
                self._field(f"{owner}.{key}", field)
                continue
            self._default(f"{owner}.{key}", field)
            if self.version in field.tagged:
                tagged.append((key, field))
            elif field.tag >= 0:
                other_versions_tags[field.tag] = key
        self._flush()
        if self.flexible:
            self._tagged_section(owner, tagged, other_versions_tags)

    def min_size_bytes(self, struct_type: "type[Struct]") -> int:
        """Return the fewest bytes that one such struct takes, at least 1: bounds an array's claimed count."""
        size = 1 if self.flexible else 0
        for field in struct_type.fields.values():
            if self.version in field.versions and self.version not in field.tagged:
                size += self._min_field_size_bytes(field)
        return max(size, 1)

    def _min_field_size_bytes(self, field: Field) -> int:
        if field.kind in FIXED_KINDS:
            return FIXED_KINDS[field.kind][1]
        if field.kind == "struct":
            assert field.struct_type is not None
            return 1 if self.version in field.nullable else self.min_size_bytes(field.struct_type)
        if self.flexible:
            return 1
        return 2 if field.kind == "string" else 4

    def _flush(self) -> None:
        if self._run:
            form = "".join(form for form, _, _ in self._run)
            targets = ", ".join(target for _, target, _ in self._run)
            self.source.line(f"{targets}, = {self.source.unpack(form)}(buffer, position)")
            self.source.line(f"position += {sum(size for _, _, size in self._run)}")
            self._run = []

    def _default(self, target: str, field: Field) -> None:
        default = field.fresh_default()
        if default == []:
            self.source.line(f"{target} = []")
        elif default is not None and field.struct_type is not None:
            self.source.line(f"{target} = {self.source.constant('fresh', fresh_maker(field.struct_type))}()")
        else:
            self.source.line(f"{target} = {self.source.constant('default', default)}")

    def _field(self, target: str, field: Field, *, is_tagged: bool = False) -> None:
        flexible = self.flexible and (field.flexible is None or self.version in field.flexible)
        nullable = self.version in field.nullable
        if field.kind in FIXED_KINDS:
            form, size = FIXED_KINDS[field.kind]
            self._run.append((form, target, size))
        elif field.kind == "struct":
            self._nested(target, field, nullable=nullable, is_tagged=is_tagged)
        elif field.kind == "array":
            self._array(target, field, flexible=flexible, nullable=nullable)
        else:
            self._sized(target, field.kind, flexible=flexible, nullable=nullable)

    def _length(self, form: str, *, flexible: bool) -> str:
        """Read a length into a new local, -1 or less for null; return its name."""
        size = self.source.local("n")
        if flexible:
            self._flush()
            self._uvarint(size, "read_string_length" if form == "h" else "read_uvarint")
            self.source.line(f"{size} -= 1")
        else:
            self._run.append((form, size, 2 if form == "h" else 4))
            self._flush()
        return size

    def _uvarint(self, target: str, read: str = "read_uvarint") -> None:
        """Read a number into a local: in place if it is one byte, as nearly always, else by ``read``."""
        self.source.line(f"{target} = buffer[position]")
        self.source.line("position += 1")
        with self.source.block(f"if {target} > 127:"):
            self.source.line(f"{target}, position = {read}(buffer, position - 1)")

    def _null_case(self, target: str, size: str, *, nullable: bool) -> None:
        name = target.split(".", 1)[-1]
        with self.source.block(f"if {size} < 0:"):
            self.source.line(f"{target} = None" if nullable else f"reject_null({name!r})")

    def _sized(self, target: str, kind: str, *, flexible: bool, nullable: bool) -> None:
        size = self._length("h" if kind == "string" else "i", flexible=flexible)
        self._null_case(target, size, nullable=nullable)
        with self.source.block("else:"):
            stop = self.source.local("e")
            self.source.line(f"{stop} = position + {size}")
            with self.source.block(f"if {stop} > end:"):
                self.source.line(f"reject_length({target.split('.', 1)[-1]!r}, {size}, end - position)")
            read = {
                "string": f"str(buffer[position:{stop}], 'utf-8')",
                "bytes": f"bytes(buffer[position:{stop}])",
                "records": f"memoryview(buffer)[position:{stop}]",
            }[kind]
            self.source.line(f"{target} = {read}")
            self.source.line(f"position = {stop}")

    def _nested(self, target: str, field: Field, *, nullable: bool, is_tagged: bool) -> None:
        assert field.struct_type is not None
        nested = self.source.local("m")
        make = f"{nested} = {target} = new({self.source.constant('type', field.struct_type)})"
        if not nullable:
            self._flush()
            self.source.line(make)
            self.struct(nested, field.struct_type)
            return
        marker = self.source.local("n")
        self._run.append(("b", marker, 1))
        self._flush()
        # In line Kafka writes -1 for null, in the tagged section 0.
        with self.source.block(f"if {marker} == 0:" if is_tagged else f"if {marker} < 0:"):
            self.source.line(f"{target} = None")
        with self.source.block("else:"):
            self.source.line(make)
            self.struct(nested, field.struct_type)

    def _array(self, target: str, field: Field, *, flexible: bool, nullable: bool) -> None:
        size = self._length("i", flexible=flexible)
        self._null_case(target, size, nullable=nullable)
        with self.source.block(f"elif {size} == 0:"):
            self.source.line(f"{target} = []")
        with self.source.block("else:"):
            unit = self._element_min_size_bytes(field, flexible=flexible)
            with self.source.block(f"if {size} * {unit} > end - position:"):
                self.source.line(f"reject_length({target.split('.', 1)[-1]!r}, {size}, end - position)")
            self._count(size, target.split(".", 1)[-1])
            if field.element in FIXED_KINDS:
                form = FIXED_KINDS[field.element][0]
                unpack = "yield from unpack_many_in_steps" if self.source.is_resumable else "unpack_many"
                self.source.line(f"{target} = {unpack}({form!r}, {unit}, {size}, buffer, position)")
                self.source.line(f"position += {size} * {unit}")
                return
            items, item = self.source.local("a"), self.source.local("m")
            self.source.line(f"{target} = {items} = []")
            with self.source.block(f"for _ in range({size}):"):
                self.source.slice_point()
                if field.struct_type is not None:
                    self.source.line(f"{item} = new({self.source.constant('type', field.struct_type)})")
                    self.struct(item, field.struct_type)
                else:
                    self._sized(item, "string", flexible=flexible, nullable=False)
                self.source.line(f"{items}.append({item})")

    def _count(self, size: str, name: str) -> None:
        self.source.line(f"room -= {size}")
        with self.source.block("if room < 0:"):
            self.source.line(f"reject_entry_count({name!r}, {size}, room)")

    def _element_min_size_bytes(self, field: Field, *, flexible: bool) -> int:
        if field.element in FIXED_KINDS:
            return FIXED_KINDS[field.element][1]
        if field.struct_type is not None:
            return self.min_size_bytes(field.struct_type)
        return 1 if flexible else 2

    def _tagged_section(self, owner: str, tagged: list[tuple[str, Field]], other_versions_tags: dict[int, str]) -> None:
        others = self.source.constant("other_tags", other_versions_tags)
        if not tagged:
            read = "yield from read_unknown_tags_in_steps" if self.source.is_resumable else "read_unknown_tags"
            with self.source.block("if buffer[position]:"):
                self.source.line(
                    f"position, room = {read}({owner}, buffer, position, end, {self.version}, {others}, room)"
                )
            with self.source.block("else:"):
                self.source.line("position += 1")
            return
        count, tag, size, stop = (self.source.local(prefix) for prefix in ("n", "t", "n", "e"))
        with self.source.block("if buffer[position] == 0:"):
            self.source.line("position += 1")
        with self.source.block("else:"):
            self._uvarint(count)
            self._count(count, "the tagged section")
            with self.source.block(f"for _ in range({count}):"):
                self.source.slice_point()
                self._uvarint(tag)
                self._uvarint(size)
                self.source.line(f"{stop} = position + {size}")
                with self.source.block(f"if {stop} > end:"):
                    self.source.line(f"reject_length(f'tag {{{tag}}}', {size}, end - position)")
                for index, (key, field) in enumerate(tagged):
                    with self.source.block(f"{'elif' if index else 'if'} {tag} == {field.tag}:"):
                        start = self.source.local("p")
                        self.source.line(f"{start} = position")
                        self._field(f"{owner}.{key}", field, is_tagged=True)
                        self._flush()
                        with self.source.block(f"if position != {stop}:"):
                            self.source.line(f"reject_tag_size({key!r}, {tag}, {size}, position - {start})")
                with self.source.block(f"elif {tag} in {others}:"):
                    self.source.line(f"reject_tag({others}[{tag}], {tag}, {self.version})")
                with self.source.block("else:"):
                    self.source.line(f"position = keep_unknown_tag({owner}, buffer, {tag}, position, {size}, end)")
