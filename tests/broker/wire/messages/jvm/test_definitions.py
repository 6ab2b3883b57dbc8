"""Our declarations equal the definitions in Kafka's jars, field by field, in both directions.

Runs where OTTLA_KAFKA_LIBS names a folder of Kafka's jars.
"""

import json
import keyword
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ottla.types import ZERO_UUID
from ottla.wire.codec import Message, Struct
from ottla.wire.codec.fields import Field
from ottla.wire.codec.versions import parse_versions
from ottla.wire.messages.registry import ApiKey, request_type, response_type

pytestmark = pytest.mark.interop

JARS = (
    "kafka-clients",
    "kafka-group-coordinator",
    "kafka-metadata",
    "kafka-raft",
    "kafka-share-coordinator",
    "kafka-transaction-coordinator",
)
KINDS = {"bool": "boolean"}
SCALAR_KINDS = {
    "bool", "int8", "int16", "uint16", "int32", "int64", "float64", "uuid", "string", "bytes", "records",
}  # fmt: skip


@pytest.fixture(scope="module")
def definitions(kafka_libs: str) -> dict[str, dict[str, Any]]:
    """Every message definition of this Kafka that has a version, by name."""
    found = {}
    for stem in JARS:
        (path,) = (
            path for path in Path(kafka_libs).glob(f"{stem}-*.jar") if re.fullmatch(rf"{stem}-[\d.]+\.jar", path.name)
        )
        with zipfile.ZipFile(path) as jar:
            for name in jar.namelist():
                if re.fullmatch(r"common/(message|metadata)/\w+\.json", name):
                    definition = parse_definition(jar.read(name).decode())
                    found[definition["name"]] = definition
    return {name: definition for name, definition in found.items() if definition["validVersions"] != "none"}


def parse_definition(text: str) -> dict[str, Any]:
    """Read Kafka's JSON, which has ``//`` comments."""
    definition: dict[str, Any] = json.loads(re.sub(r'^((?:[^"/\n]|"[^"\n]*")*)//.*$', r"\1", text, flags=re.MULTILINE))
    return definition


def snake_case(name: str) -> str:
    name = name.replace("KRaft", "Kraft").replace("IPs", "Ips")
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name).lower()
    return f"{name}_" if keyword.iskeyword(name) else name


def facts_of_definition(field: dict[str, Any]) -> dict[str, Any]:
    kind = field["type"].removeprefix("[]")
    versions = field.get("versions") or field["taggedVersions"]
    return {
        "is_array": field["type"].startswith("[]"),
        "kind": KINDS.get(kind, kind) if kind in SCALAR_KINDS else "struct",
        "versions": parse_versions(versions),
        "nullable": parse_versions(field.get("nullableVersions", "")),
        "tagged": parse_versions(field.get("taggedVersions", "")),
        "tag": field.get("tag", -1),
        "default": default_of_definition(field),
        "ignorable": field.get("ignorable", False),
        "flexible": parse_versions(field["flexibleVersions"]) if "flexibleVersions" in field else None,
    }


def default_of_definition(field: dict[str, Any]) -> Any:
    """Return the default as a value: a missing one is Kafka's zero of the type."""
    kind, text = field["type"], field.get("default")
    text = "" if text is None else str(text)  # Kafka's generator does not treat a JSON null as a default
    if text == "null" or kind == "records":
        return None
    if kind == "bool":
        return text.lower() == "true"
    if kind == "float64":
        return float(text or 0)
    if kind.startswith(("int", "uint")):
        return int(text or "0", 0)
    zeros = {"string": "", "bytes": b"", "uuid": ZERO_UUID}
    assert not text, f"{field['name']} has a default of a kind that is new: {text}"
    return zeros.get(kind, ())


def facts_of_declaration(field: Field) -> dict[str, Any]:
    default = field.default
    if field.kind == "struct" and default is not None:
        default = ()  # an empty struct
    return {
        "is_array": field.kind == "array",
        "kind": field.element if field.kind == "array" else field.kind,
        "versions": field.versions,
        "nullable": field.nullable,
        "tagged": field.tagged,
        "tag": field.tag,
        "default": default,
        "ignorable": field.ignorable,
        "flexible": field.flexible,
    }


def compare_fields(where: str, definition: list[dict[str, Any]], declared: type[Struct], shared: dict[str, Any]) -> int:
    """Compare in order and in depth; return how many fields there were."""
    assert [snake_case(field["name"]) for field in definition] == list(declared.fields), where
    compared = 0
    for field in definition:
        mine = declared.fields[snake_case(field["name"])]
        place = f"{where}.{field['name']}"
        assert facts_of_declaration(mine) == facts_of_definition(field), place
        compared += 1
        if mine.struct_type is not None:
            nested = field.get("fields") or shared[field["type"].removeprefix("[]")]
            compared += compare_fields(place, nested, mine.struct_type, shared)
    return compared


def test_every_definition_is_declared_and_nothing_else(
    definitions: dict[str, dict[str, Any]], message_types: list[type[Message]]
) -> None:
    assert {message_type.__name__ for message_type in message_types} == set(definitions)


def test_every_field_agrees(definitions: dict[str, dict[str, Any]], message_types: list[type[Message]]) -> None:
    compared = 0
    for message_type in message_types:
        definition = definitions[message_type.__name__]
        shared = {struct["name"]: struct["fields"] for struct in definition.get("commonStructs", [])}
        compared += compare_fields(message_type.__name__, definition["fields"], message_type, shared)

    assert compared > 2_000


def test_every_message_agrees(definitions: dict[str, dict[str, Any]], message_types: list[type[Message]]) -> None:
    for message_type in message_types:
        definition = definitions[message_type.__name__]
        listeners = definition.get("listeners", []) if definition["type"] == "request" else []

        assert {
            "api_key": message_type.api_key,
            "versions": message_type.versions,
            "flexible": message_type.flexible,
            "served_on": sorted(message_type.served_on),
            "latest_version_unstable": message_type.latest_version_unstable,
        } == {
            "api_key": definition.get("apiKey", -1),
            "versions": parse_versions(definition["validVersions"]),
            "flexible": parse_versions(definition["flexibleVersions"]),
            "served_on": sorted(listeners),
            "latest_version_unstable": definition.get("latestVersionUnstable", False),
        }, message_type.__name__


def test_registry_has_every_api(definitions: dict[str, dict[str, Any]]) -> None:
    requests = {
        definition["apiKey"]: name for name, definition in definitions.items() if definition["type"] == "request"
    }
    responses = {
        definition["apiKey"]: name for name, definition in definitions.items() if definition["type"] == "response"
    }

    assert {int(key): request_type(key).__name__ for key in ApiKey} == requests
    assert {int(key): response_type(key).__name__ for key in ApiKey} == responses
