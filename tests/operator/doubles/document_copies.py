"""Copies of documents of Kubernetes objects."""

from typing import Any


def copy_document(value: Any) -> Any:
    """Return a copy of a document, or of a value in one: of maps, lists and values that nothing can change.

    `copy.deepcopy`, which also remembers every object that it has met, took most of the time of reconciliations here.
    """
    if isinstance(value, dict):
        return {name: copy_document(it) for name, it in value.items()}
    if isinstance(value, list):
        return [copy_document(it) for it in value]
    return value
