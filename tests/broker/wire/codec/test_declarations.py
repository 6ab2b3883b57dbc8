"""The annotation of a field has the type that its declaration encodes."""

from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from ottla.types import Uuid
from ottla.wire.codec import Message, Struct
from ottla.wire.codec.fields import Field
from ottla.wire.codec.message import Records

SCALARS: dict[str, Any] = {
    "boolean": bool,
    "int8": int,
    "int16": int,
    "uint16": int,
    "int32": int,
    "int64": int,
    "float64": float,
    "uuid": Uuid,
    "string": str,
    "bytes": bytes,
}


def structs_of(struct_type: type[Struct]) -> set[type[Struct]]:
    found = {struct_type}
    for field in struct_type.fields.values():
        if field.struct_type is not None:
            found |= structs_of(field.struct_type)
    return found


def expected_annotation(field: Field) -> Any:
    if field.kind == "array":
        return list[field.struct_type or SCALARS[field.element]]  # type: ignore[misc]
    return field.struct_type if field.kind == "struct" else SCALARS[field.kind]


def split_optional(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) not in (UnionType, Union):
        return annotation, False
    rest = [argument for argument in get_args(annotation) if argument is not NoneType]
    return (rest[0] if len(rest) == 1 else Union[tuple(rest)]), NoneType in get_args(annotation)  # noqa: UP007


def test_every_annotation_agrees_with_its_declaration(message_type: type[Message]) -> None:
    for struct_type in structs_of(message_type):
        hints = get_type_hints(struct_type)
        for key, field in struct_type.fields.items():
            annotation, is_optional = split_optional(hints[key])

            may_be_none = field.nullable.last >= field.nullable.first or field.default is None
            assert is_optional == may_be_none, f"{struct_type.__name__}.{key}"
            if field.kind == "records":
                assert set(get_args(annotation)) == set(get_args(Records)), f"{struct_type.__name__}.{key}"
            else:
                assert annotation == expected_annotation(field), f"{struct_type.__name__}.{key}"


def test_no_field_hides_an_attribute_of_messages(message_type: type[Message]) -> None:
    for struct_type in structs_of(message_type):
        inherited = set(dir(Message if issubclass(struct_type, Message) else Struct))
        assert not inherited & set(struct_type.fields), struct_type.__name__


def test_versions_of_a_field_are_within_those_of_its_message(message_type: type[Message]) -> None:
    first, last = message_type.versions
    for struct_type in structs_of(message_type):
        for key, field in struct_type.fields.items():
            where = f"{message_type.__name__}: {struct_type.__name__}.{key}"
            assert field.versions.first <= last, where
            assert not (field.tag >= 0 and field.tagged.last < field.tagged.first), where
            for version in range(first, last + 1):
                if version in field.tagged:
                    assert version in message_type.flexible, where
                if version in field.nullable:
                    assert field.kind in ("string", "bytes", "records", "array", "struct"), where


def test_tags_of_one_struct_differ(message_type: type[Message]) -> None:
    for struct_type in structs_of(message_type):
        tags = [field.tag for field in struct_type.fields.values() if field.tag >= 0]
        assert len(tags) == len(set(tags)), struct_type.__name__
