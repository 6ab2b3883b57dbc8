"""The CEL rules of a structural schema (``x-kubernetes-validations``), evaluated where there is no API server.

A rule that names ``oldSelf`` is about a change: it is checked for updates, and only where the same field exists in
both objects; entries of a list of type ``map`` are the same if their keys are. Of the API server's own CEL
libraries, ``quantity`` is implemented as far as the CRDs use it.
Source: Kubernetes, "CustomResourceDefinitions: validation rules" and "transition rules".
"""

from collections.abc import Iterator
from functools import cache
from typing import Protocol

from ottla_operator.errors import Violation
from ottla_operator.model.document import Document, Json, Schema
from ottla_operator.model.quantity import compare_quantities


class _Program(Protocol):
    def evaluate(self, activation: Document) -> Json: ...


def violations(value: Json, old: Json, schema: Schema, path: str = "") -> Iterator[Violation]:
    """Yield the violations of ``value``; ``old`` is the stored value of the same field, None if there is none."""
    for rule in schema.get("x-kubernetes-validations", []):
        text = rule["rule"]
        if "oldSelf" in text and old is None:
            continue
        if not _holds(text, value, old):
            yield Violation((path + rule.get("fieldPath", "")).lstrip("."), rule["message"])
    if isinstance(value, dict):
        yield from _violations_in_object(value, old, schema, path)
    elif isinstance(value, list):
        yield from _violations_in_list(value, old, schema, path)


def _violations_in_object(value: Document, old: Json, schema: Schema, path: str) -> Iterator[Violation]:
    before = old if isinstance(old, dict) else {}
    for name, child in schema.get("properties", {}).items():
        if name in value:
            yield from violations(value[name], before.get(name), child, f"{path}.{name}")


def _violations_in_list(value: list[Json], old: Json, schema: Schema, path: str) -> Iterator[Violation]:
    keys = schema.get("x-kubernetes-list-map-keys", [])
    before = {tuple(item.get(key) for key in keys): item for item in old or []} if keys else {}
    for index, item in enumerate(value):
        same = before.get(tuple(item.get(key) for key in keys)) if keys else None
        yield from violations(item, same, schema["items"], f"{path}[{index}]")


def _holds(text: str, value: Json, old: Json) -> bool:
    from celpy import CELEvalError
    from celpy.adapter import json_to_cel

    activation = {"self": json_to_cel(value)}
    if old is not None:
        activation["oldSelf"] = json_to_cel(old)
    try:
        return bool(_program(text).evaluate(activation))
    except CELEvalError:
        # As on the API server: a rule that cannot be evaluated is violated.
        return False


@cache
def _program(text: str) -> _Program:
    from celpy import Environment

    environment = Environment()
    functions = {"quantity": lambda text: text, "compareTo": _compare_quantities}
    program: _Program = environment.program(environment.compile(text), functions=functions)
    return program


def _compare_quantities(one: str, other: str) -> Json:
    from celpy.celtypes import IntType

    return IntType(compare_quantities(str(one), str(other)))
