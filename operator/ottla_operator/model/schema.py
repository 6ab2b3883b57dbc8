"""The CRDs in ``crds/`` as the one source of validation, also without an API server.

`admit` does what the API server does with an object of the operator's kinds: reject fields that the schema does not
name, check types and bounds, and evaluate the CEL rules, including those about changes. Absent fields stay absent: the
schema has no defaults, because a default inside a list is a difference between manifest and object that GitOps tools
never settle. The CRD files are found in a source checkout or inside an installed wheel.
"""

import copy
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from ottla_operator.errors import ManifestError, OperatorError, Violation
from ottla_operator.model import rules
from ottla_operator.model.document import API_VERSION, KINDS, Document, Json, Schema

if TYPE_CHECKING:
    from jsonschema import ValidationError

_NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"

_TEXT_END = r"\Z"
"""The end of a string, which is ``$`` on the API server; Python's ``$`` also matches before a newline. No pattern of
the CRDs has ``$`` inside."""

_PASSWORD = "password"  # noqa: S105 - the name of a field


def crd_directory() -> Path:
    """Return the folder of ``<kind>.yaml``: inside the installed package, else next to the checkout's ``operator/``."""
    package = Path(__file__).parent.parent
    for candidate in (package / "crds", package.parent.parent / "crds"):
        if (candidate / "topic.yaml").is_file():
            return candidate
    raise OperatorError(f"the CRD files are missing from {package}; reinstall the package ottla")


@cache
def definition(kind: str) -> Document:
    """Return the CustomResourceDefinition of ``kind``; treat it as read-only."""
    text = (crd_directory() / f"{kind.lower()}.yaml").read_text(encoding="utf-8")
    loaded: Document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    return loaded


def structural_schema(kind: str) -> Schema:
    """Return the ``openAPIV3Schema`` of ``kind``; treat it as read-only."""
    version: Schema = definition(kind)["spec"]["versions"][0]
    schema: Schema = version["schema"]["openAPIV3Schema"]
    return schema


def admit(document: Document, stored: Document | None = None) -> Document:
    """Return a copy of ``document``, with the status of the stored object, if the API server would accept it.

    Args:
        document: a manifest; left as it is.
        stored: the object stored under the same name, with its status; None for a new one.

    Raises:
        ManifestError: it is rejected; the error names every invalid field.
    """
    subject = _subject(document)
    _require_known_kind(document, subject)
    schema = structural_schema(document["kind"])
    violations = [*_metadata_violations(document), *_schema_violations(document, schema)]
    if violations:
        raise ManifestError(subject, tuple(violations))
    admitted = copy.deepcopy(document)
    if stored is not None and "status" in stored:
        admitted["status"] = copy.deepcopy(stored["status"])
    violations = [*_duplicates(admitted, schema), *rules.violations(admitted, stored, schema)]
    if violations:
        raise ManifestError(subject, tuple(violations))
    return admitted


def identity(document: Document) -> tuple[str, str]:
    """Return kind and name of ``document``.

    Raises:
        ManifestError: it is no object of the operator's kinds, or has no valid name.
    """
    subject = _subject(document)
    _require_known_kind(document, subject)
    violations = tuple(_metadata_violations(document))
    if violations:
        raise ManifestError(subject, violations)
    return document["kind"], document["metadata"]["name"]


def is_name(value: Json) -> bool:
    """Tell whether ``value`` is a valid object name, which is also safe as part of a path."""
    return isinstance(value, str) and len(value) <= 253 and re.fullmatch(_NAME_PATTERN, value) is not None


def _subject(document: Document) -> str:
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return f"{document.get('kind') or 'document'} {name or 'without a name'}"


def _require_known_kind(document: Document, subject: str) -> None:
    version, kind = document.get("apiVersion"), document.get("kind")
    if version != API_VERSION:
        raise ManifestError(subject, (Violation("apiVersion", f"is {version!r}; it must be {API_VERSION}"),))
    if kind not in KINDS:
        raise ManifestError(subject, (Violation("kind", f"is {kind!r}; it must be {' or '.join(KINDS)}"),))


def _metadata_violations(document: Document) -> Iterator[Violation]:
    import jsonschema

    metadata = document.get("metadata")
    schema = {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "maxLength": 253, "pattern": _NAME_PATTERN},
            "namespace": {"type": "string"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    }
    for error in jsonschema.Draft202012Validator(schema).iter_errors(metadata):
        yield Violation(_path("metadata", *error.absolute_path), _explain(error))


def _schema_violations(document: Document, schema: Schema) -> list[Violation]:
    import jsonschema

    closed = _closed(schema)
    found = jsonschema.Draft202012Validator(closed).iter_errors(
        {name: value for name, value in document.items() if name not in ("metadata", "status")}
    )
    return sorted((Violation(_path(*error.absolute_path), _explain(error)) for error in found), key=str)


def _closed(schema: Schema) -> Schema:
    """Return ``schema`` as JSON Schema in which fields that are not named are invalid.

    The API server prunes unknown fields or, with strict validation as kubectl requests it, rejects them.
    """
    closed = {key: value for key, value in schema.items() if not key.startswith("x-kubernetes-") and key != "format"}
    if schema.get("x-kubernetes-int-or-string"):
        closed.pop("type", None)
    if "pattern" in schema:
        closed["pattern"] = schema["pattern"].replace("$", _TEXT_END)
    if "properties" in schema:
        closed["properties"] = {name: _closed(child) for name, child in schema["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            closed["additionalProperties"] = False
    elif isinstance(schema.get("additionalProperties"), dict):
        closed["additionalProperties"] = _closed(schema["additionalProperties"])
    if "items" in schema:
        closed["items"] = _closed(schema["items"])
    if schema.get("nullable"):
        closed["type"] = [schema["type"], "null"]
    return closed


def _duplicates(value: Json, schema: Schema, *path: str | int) -> Iterator[Violation]:
    """Yield duplicates in lists of the types ``map`` and ``set``, whose entries are identified by their keys."""
    if isinstance(value, dict):
        for name, child in schema.get("properties", {}).items():
            if name in value:
                yield from _duplicates(value[name], child, *path, name)
    elif isinstance(value, list):
        keys, seen = schema.get("x-kubernetes-list-map-keys", []), []
        for index, element in enumerate(value):
            yield from _duplicates(element, schema["items"], *path, index)
            same = {key: element.get(key) for key in keys} if keys else element
            if schema.get("x-kubernetes-list-type") in ("map", "set") and same in seen:
                said = ", ".join(f"{key} {text}" for key, text in same.items()) if keys else repr(element)
                yield Violation(_path(*path, index), f"the list has {said} already")
            seen.append(same)


def _path(*parts: str | int) -> str:
    text = ""
    for part in parts:
        if isinstance(part, int) or "." in part:
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def _explain(error: "ValidationError") -> str:
    """Explain an error of jsonschema by what the user should write instead."""
    value: Json = error.instance
    limit: Json = error.validator_value
    schema: Json = error.schema
    match error.validator:
        case "type":
            wanted = limit if isinstance(limit, str) else " or ".join(limit)
            if _PASSWORD in error.absolute_path:
                # Keep a password that was put into a manifest out of messages and logs.
                return f"must be of type {wanted}"
            quote = f', quote it: "{value}"' if wanted == "string" and isinstance(value, int | float) else ""
            return f"is {value!r}; it must be of type {wanted}{quote}"
        case "required":
            return f"{error.message.split(' ')[0]} is missing"
        case "additionalProperties":
            known = ", ".join(sorted(schema.get("properties", {})))
            return f"{error.message.split('(')[-1].rstrip(')')}; known fields: {known}"
        case "minimum":
            return f"is {value}; it must be at least {limit}"
        case "maximum":
            return f"is {value}; it must be at most {limit}"
        case "enum":
            return f"is {value!r}; it must be one of {', '.join(map(str, limit))}"
        case "pattern":
            return f"is {value!r}; it must match {limit.replace(_TEXT_END, '$')}"
        case _:
            return str(error.message)
