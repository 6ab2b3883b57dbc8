"""Manifests after parsing: nested dictionaries in the API's own field names."""

from typing import Any, TypeAlias

GROUP = "ottla.dev"
VERSION = "v1"
API_VERSION = f"{GROUP}/{VERSION}"
KINDS = ("Cluster", "Topic", "User")

Json: TypeAlias = Any
"""Any value that JSON can hold."""

Document: TypeAlias = dict[str, Json]
"""One object: a manifest, perhaps with its status."""

Schema: TypeAlias = dict[str, Json]
"""A structural schema (a CRD's ``openAPIV3Schema``) or a part of one."""


def covers(found: Json, wanted: Json) -> bool:
    """Tell whether ``found`` has everything that ``wanted`` has; fields that the API server added do not matter."""
    if isinstance(wanted, dict):
        # The API server drops some empty values, and keeps others.
        return isinstance(found, dict) and all(
            covers(found[name], value) if name in found else value in ({}, []) for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(found) == len(wanted)
            and all(covers(it, value) for it, value in zip(found, wanted, strict=True))
        )
    return bool(found == wanted)
