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
