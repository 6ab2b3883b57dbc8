"""The rules of declarations, one by one, on messages small enough to read as bytes."""

import re

import pytest

from ottla.errors import ProtocolError
from ottla.ports import FileSlice
from ottla.simulator.world.disk import SimulatedDisk
from ottla.wire.codec import (
    EncodedArray,
    Message,
    Struct,
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
from ottla.wire.codec.message import Records, Splice, splice_chunks
from ottla.wire.codec.primitives import STRING_BYTES_MAX


class Child(Struct):
    name: str = string("0+")
    rank: int = int32("1+", default=-1, ignorable=True)
    note: str | None = string("2+", nullable="2+", default=None, tag=0, tagged="2+")


class Parent(Message, versions="0-4", flexible="2+"):
    number: int = int32("0+")
    must_travel: int = int32("1+")
    may_be_dropped: int = int32("1+", ignorable=True)
    text: str | None = string("0+", nullable="1+")
    children: list[Child] = array(Child, "0+")
    only: Child | None = struct(Child, "1+", nullable="1+", default=None)
    late_tag: int = int32("3+", tag=1, tagged="3+")
    tagged_child: Child | None = struct(Child, "3+", nullable="3+", default=None, tag=2, tagged="3+")
    tagged_when_new: int = int16("0+", tag=3, tagged="4+")


class Data(Message, versions="0-1", flexible="1+"):
    body: Records | None = records("0+", nullable="0+")
    tail: int = int8("0+")


class Everything(Message, versions="0", flexible="none"):
    a: bool = boolean("0+")
    b: int = int8("0+")
    c: int = int16("0+")
    d: int = uint16("0+")
    e: int = int32("0+")
    f: int = int64("0+")
    g: float = float64("0+")
    h: bytes = uuid("0+")
    i: bytes = bytes_("0+")
    j: list[str] = array("string", "0+")


class Names(Message, versions="0-1", flexible="1+"):
    names: list[str] = array("string", "0+")


class Tagged(Message, versions="0", flexible="0+"):
    children: list[Child] = array(Child, "0+", tag=0, tagged="0+", encodable=True)


class Tree(Message, versions="0-2", flexible="2+"):
    before: int = int8("0+")
    children: list[Child] | None = array(Child, "0+", nullable="1+", encodable=True)
    others: list[Child] = array(Child, "0+")
    after: int = int8("0+")


def test_unknown_field_is_rejected_before_and_after_the_first_instance() -> None:
    class Fresh(Struct):
        number: int = int32("0+")
        children: list[Child] = array(Child, "0+")

    for _ in range(2):
        with pytest.raises(TypeError, match="unexpected keyword argument 'nmber'"):
            Fresh(nmber=1)  # type: ignore[call-arg]
        made = Fresh(number=2)
        assert (made.number, made.children, made.unknown_tags) == (2, [], None)


# --- encode -----------------------------------------------------------------------------------------------------


def test_fields_are_encoded_big_endian_in_order() -> None:
    message = Everything(a=True, b=-1, c=2, d=65_535, e=-2, f=3, g=1.0, h=bytes(range(16)), i=b"xy", j=["k", ""])

    assert message.encode(0).hex(" ") == (
        "01 ff 00 02 ff ff ff ff ff fe 00 00 00 00 00 00 00 03 3f f0 00 00 00 00 00 00 "
        "00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f 00 00 00 02 78 79 00 00 00 02 00 01 6b 00 00"
    )


def test_flexible_versions_have_compact_lengths_and_tags() -> None:
    message = Parent(number=1, text="ab", children=[Child(name="c", rank=2, note="n")])

    assert message.encode(2).hex(" ") == (
        "00 00 00 01 00 00 00 00 00 00 00 00 03 61 62 02 02 63 00 00 00 02 01 00 02 02 6e ff 00 00 00"
    )


@pytest.mark.parametrize(
    ("child", "expected"),
    [
        pytest.param(None, "", id="default-null-is-left-out"),
        pytest.param(Child(), "01 02 07 01 01 ff ff ff ff 00", id="present"),
    ],
)
def test_nullable_struct_in_the_tagged_section(child: Child | None, expected: str) -> None:
    encoded = Parent(text="", tagged_child=child).encode(3)

    assert encoded.hex(" ").endswith(expected or "ff 00 00 00")
    assert Parent.decode(encoded, 3).tagged_child == child


def test_null_struct_in_the_tagged_section_is_decoded_from_zero() -> None:
    """In line a null is -1; the JVM's tagged sections have 0 there."""
    encoded = Parent(text="").encode(3)[:-1] + bytes([1, 2, 1, 0])

    assert Parent.decode(encoded, 3).tagged_child is None


def test_known_and_unknown_tags_are_encoded_by_number() -> None:
    message = Parent(text="", late_tag=7)
    message.unknown_tags = {0: b"zero", 9: b"nine"}

    encoded = message.encode(3)

    assert encoded.endswith(b"\x03" + b"\x00\x04zero" + b"\x01\x04\x00\x00\x00\x07" + b"\x09\x04nine")
    assert Parent.decode(encoded, 3) == message


@pytest.mark.parametrize(
    ("message", "version", "reason"),
    [
        pytest.param(Parent(text="", must_travel=1), 0, "must_travel has a value, but version 0", id="field-too-new"),
        pytest.param(Parent(text="", late_tag=1), 2, "late_tag has a value, but version 2", id="tag-too-new"),
        pytest.param(Parent(text="", only=Child()), 0, "only has a value, but version 0", id="struct-too-new"),
        pytest.param(Parent(text="", children=[Child(note="n")]), 1, "note has a value", id="nested-tag-too-new"),
        pytest.param(Parent(text=None), 0, "cannot be encoded", id="null-too-new"),
        pytest.param(Parent(text="", number=2**31), 0, "cannot be encoded", id="int32-too-large"),
        pytest.param(Parent(text="", tagged_when_new=-(2**15) - 1), 4, "cannot be encoded", id="tagged-too-small"),
        pytest.param(Parent(text="x" * (STRING_BYTES_MAX + 1)), 1, "cannot be encoded", id="string-too-long"),
        pytest.param(Parent(text="x" * (STRING_BYTES_MAX + 1)), 2, "longer than 32767", id="compact-string-too-long"),
        pytest.param(Everything(h=bytes(15), j=None), 0, "cannot be encoded", id="null-array"),  # type: ignore[arg-type]
    ],
)
def test_value_that_a_version_cannot_represent_is_rejected(message: Message, version: int, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        message.encode(version)


def test_ignorable_field_is_dropped_by_a_version_that_lacks_it() -> None:
    message = Parent(text="", may_be_dropped=5, children=[Child(rank=3)])

    assert Parent.decode(message.encode(0), 0) == Parent(text="", children=[Child(rank=-1)])


def test_undefined_version_is_rejected() -> None:
    with pytest.raises(ValueError, match=re.escape("Parent has versions 0-4, not 5")):
        Parent().encode(5)
    with pytest.raises(ValueError, match="not -1"):
        Parent.decode(b"", -1)


@pytest.mark.parametrize("version", [1, 2])
def test_longest_string_round_trips(version: int) -> None:
    message = Parent(text="x" * STRING_BYTES_MAX)

    assert Parent.decode(message.encode(version), version) == message


# --- records ----------------------------------------------------------------------------------------------------


def test_records_are_spliced_in_without_being_copied() -> None:
    body = bytearray(b"records")
    out, splices = bytearray(b"head"), list[Splice]()

    Data(body=body, tail=1).write(0, out, splices)

    assert [position for position, _ in splices] == [8]
    assert splices[0][1] is body
    assert b"".join(bytes(chunk) for chunk in splice_chunks(out, splices)) == b"head\x00\x00\x00\x07records\x01"  # type: ignore[arg-type]


@pytest.mark.parametrize("version", [0, 1])
def test_empty_records_leave_one_chunk_to_send(version: int) -> None:
    out, splices = bytearray(), list[Splice]()

    Data(body=b"", tail=1).write(version, out, splices)

    assert splices == []
    assert splice_chunks(out, splices) == [out]


def test_records_come_from_a_file_slice() -> None:
    file = SimulatedDisk().open("log", create=True)
    file.pwritev([b"0123456789"], 0)

    assert Data(body=FileSlice(file, 2, 3), tail=4).encode(1) == b"\x04234\x04\x00"


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("body", [None, b"", b"x"], ids=["null", "empty", "one-byte"])
def test_records_may_be_null_or_empty(version: int, body: bytes | None) -> None:
    message = Data(body=body, tail=9)

    assert Data.decode(message.encode(version), version) == message


def test_decoded_records_are_a_view_on_the_buffer() -> None:
    buffer = bytearray(Data(body=b"abc", tail=1).encode(0))

    decoded = Data.decode(buffer, 0)
    buffer[4:7] = b"xyz"

    assert isinstance(decoded.body, memoryview)
    assert decoded.body == b"xyz"


# --- decode -----------------------------------------------------------------------------------------------------


def test_unknown_tags_are_kept_and_encoded_again() -> None:
    message = Parent(text="", children=[Child(name="c")])
    message.unknown_tags = {100: b"later"}
    message.children[0].unknown_tags = {5: b""}

    decoded = Parent.decode(message.encode(2), 2)

    assert decoded.unknown_tags == {100: b"later"}
    assert decoded.children[0].unknown_tags == {5: b""}
    assert decoded.encode(2) == message.encode(2)


HEAD_V2 = bytes(12) + b"\x01\x01\xff" + bytes(2)
"""A `Parent` of version 2 or 3 up to its tagged section."""


@pytest.mark.parametrize(
    ("data", "version", "reason"),
    [
        pytest.param(b"", 0, "ends too early", id="empty"),
        pytest.param(bytes(4) + b"\xff\xff" + bytes(6), 0, "text is null", id="null-string-too-old"),
        pytest.param(bytes(4) + b"\x80\x00" + bytes(6), 0, "text is null", id="negative-length"),
        pytest.param(bytes(4) + b"\x00\x09" + bytes(6), 0, "text claims a length of 9 with 6 bytes left", id="string"),
        pytest.param(bytes(6) + b"\x7f\xff\xff\xff" + bytes(2), 0, "claims a length of 2147483647", id="array"),
        pytest.param(bytes(6) + b"\xff\xff\xff\xff" + bytes(2), 0, "children is null", id="null-array"),
        pytest.param(bytes(4) + b"\x00\x01\xff" + bytes(6), 0, "not UTF-8", id="not-utf-8"),
        pytest.param(bytes(4) + b"\x00\x02\xed\xa0" + bytes(6), 0, "not UTF-8", id="surrogate"),
        pytest.param(bytes(13), 0, "followed by 1 bytes too many", id="left-over"),
        pytest.param(bytes(12) + b"\x01\x00", 2, "children is null", id="null-compact-array"),
        pytest.param(bytes(12) + b"\xff\xff\xff\xff\xff\x01", 2, "longer than five bytes", id="endless-varint"),
        pytest.param(bytes(12) + b"\x81\x80\x02" + bytes(40_000), 2, "claims 32768 bytes", id="long-compact-string"),
        pytest.param(HEAD_V2 + b"\x01\x01\x04\x00\x00\x00\x00", 2, "tag 1 .late_tag. is not valid", id="tag-too-new"),
        pytest.param(HEAD_V2 + b"\x01\x01\x05\x00\x00\x00\x00\x00", 3, "claims 5 bytes and holds 4", id="tag-too-long"),
        pytest.param(HEAD_V2 + b"\x01\x01\x03\x00\x00\x00\x00", 3, "claims 3 bytes and holds 4", id="tag-too-short"),
        pytest.param(HEAD_V2 + b"\x01\x09\x7f", 3, "claims a length of 127 with 0 bytes left", id="tag-cut"),
        pytest.param(HEAD_V2 + b"\xff\xff\xff\xff\x07", 2, "the tagged section claims", id="tag-count"),
        pytest.param(HEAD_V2 + b"\x01\xff\xff\xff\xff\xff\x01", 2, "longer than five bytes", id="tag-number"),
    ],
)  # fmt: skip
def test_malformed_message_is_rejected_with_the_reason(data: bytes, version: int, reason: str) -> None:
    with pytest.raises(ProtocolError, match=f"Parent v{version}.*{reason}"):
        Parent.decode(data, version)


def test_field_is_in_line_until_the_version_that_tags_it() -> None:
    message = Parent(text="", tagged_when_new=300)

    assert message.encode(0)[-2:] == b"\x01\x2c"
    assert message.encode(4)[-5:] == b"\x01\x03\x02\x01\x2c"
    assert Parent.decode(message.encode(4), 4) == message


@pytest.mark.parametrize("version", [0, 1])
def test_array_with_missing_strings_is_rejected(version: int) -> None:
    with pytest.raises(ProtocolError):
        Names.decode(b"\x00\x00\x00\x03\x00\x01a" if version == 0 else b"\x04\x02a", version)


# --- the classes ------------------------------------------------------------------------------------------------


def test_mutable_defaults_are_not_shared() -> None:
    first, second = Parent(), Parent()
    first.children.append(Child())

    assert second.children == []


def test_messages_compare_by_value_and_have_no_hash() -> None:
    assert Parent(number=1) == Parent(number=1)
    assert Parent(number=1) != Parent(number=2)
    assert Child() != Parent()
    with pytest.raises(TypeError, match="unhashable"):
        hash(Parent())


def test_unknown_tags_count_in_a_comparison() -> None:
    tagged, empty = Parent(), Parent()
    tagged.unknown_tags = {9: b""}
    empty.unknown_tags = {}

    assert tagged != Parent()
    assert empty == Parent()


def test_repr_of_a_message_shows_only_values_other_than_defaults() -> None:
    assert repr(Parent(number=1, children=[Child(name="c")])) == "Parent(number=1, children=[Child(name='c')])"
    assert repr(Data(body=memoryview(b"secret"))) == "Data(body=<6 bytes>)"


def test_undeclared_field_is_rejected() -> None:
    with pytest.raises(TypeError, match="nummer"):
        Parent(nummer=1)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        Parent().nummer = 1  # type: ignore[attr-defined]


# --- arrays encoded once ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("count", [0, 1, 200])
def test_encoded_array_has_the_bytes_of_its_list(version: int, count: int) -> None:
    children = [Child(name=str(number)) for number in range(count)]
    encoded = Tree.encode_array(version, Tree, "children", children)

    with_list = Tree(before=1, children=children, after=2).encode(version)
    assert Tree(before=1, children=encoded.as_list, after=2).encode(version) == with_list
    assert Tree.decode(with_list, version).children == children


@pytest.mark.parametrize("version", range(3))
def test_long_encoded_array_is_sent_without_a_copy(version: int) -> None:
    children = [Child(name=str(number)) for number in range(4_000)]
    encoded = Tree.encode_array(version, Tree, "children", children)
    out = bytearray()
    splices: list[Splice] = []

    Tree(before=1, children=encoded.as_list, after=2).write(version, out, splices)

    ((position, shared),) = splices
    assert (position, shared) == (1, encoded.data)
    assert shared is encoded.data
    with_list = Tree(before=1, children=children, after=2).encode(version)
    assert b"".join(splice_chunks(out, splices)) == with_list  # type: ignore[arg-type]
    assert Tree(before=1, children=encoded.as_list, after=2).encode(version) == with_list


def test_long_encoded_array_in_a_tagged_field_has_the_bytes_of_its_list() -> None:
    children = [Child(name=str(number)) for number in range(4_000)]
    encoded = Tagged.encode_array(0, Tagged, "children", children)

    assert Tagged(children=encoded.as_list).encode(0) == Tagged(children=children).encode(0)


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("count", [0, 1, 126, 127, 200])
def test_items_encoded_one_by_one_join_to_their_array(version: int, count: int) -> None:
    children = [Child(name=str(number)) for number in range(count)]
    items = [Tree.encode_item(version, Tree, "children", child) for child in children]

    assert Tree.join_items(version, count, items) == Tree.encode_array(version, Tree, "children", children)


def test_array_encoded_for_another_version_is_rejected() -> None:
    encoded = Tree.encode_array(0, Tree, "children", [Child(name="a")])

    assert encoded == EncodedArray(0, b"\0\0\0\1\0\1a")
    with pytest.raises(ValueError, match="children is encoded for version 0, but goes out in version 1"):
        Tree(children=encoded.as_list).encode(1)


def test_only_encodable_arrays_are_encoded_apart() -> None:
    with pytest.raises(ValueError, match=r"Tree\.others is not declared encodable"):
        Tree.encode_array(0, Tree, "others", [])


def test_encoding_an_array_rejects_an_element_that_the_version_cannot_represent() -> None:
    with pytest.raises(ValueError, match=r"Tree\.children v0 cannot be encoded"):
        Tree.encode_array(0, Tree, "children", [Child(name=None)])  # type: ignore[arg-type]


def test_encoded_null_array_is_null() -> None:
    encoded = Tree.encode_array(1, Tree, "children", None)

    assert Tree(children=encoded.as_list).encode(1) == Tree(children=None).encode(1)
