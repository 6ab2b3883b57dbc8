"""Comparison of objects of the API server with those that the operator wants."""

from ottla_operator.model.document import Json

ATOMIC_FIELDS = frozenset(
    {
        "fieldRef",
        "labelSelector",
        "namespaceSelector",
        "nodeSelector",
        "podSelector",
        "preference",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "selector",
    }
)
"""Fields that the API server replaces as a whole: ``x-kubernetes-map-type: atomic`` in its OpenAPI schema.

A key that the operator did not write changes the meaning of such a field, as one more label does in a selector. The
names have no other meaning in the kinds that the operator writes.
"""


def covers(found: Json, wanted: Json) -> bool:
    """Tell whether ``found`` has everything that ``wanted`` has; fields that the API server added do not matter.

    Atomic fields must be equal: the API server adds nothing to them.
    """
    if isinstance(wanted, dict):
        # The API server drops some empty values, and keeps others.
        return isinstance(found, dict) and all(
            _covers_field(name, found[name], value) if name in found else value in ({}, [])
            for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(found) == len(wanted)
            and all(covers(it, value) for it, value in zip(found, wanted, strict=True))
        )
    return bool(found == wanted)


def merged(found: Json, wanted: Json) -> Json:
    """Return ``wanted`` with the fields that only ``found`` has, as those that the API server defaulted."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        fields = {
            name: value if name in ATOMIC_FIELDS else merged(found.get(name), value) for name, value in wanted.items()
        }
        return {**found, **fields}
    # Elements that differ may be others: they must not get the defaults, as node ports, of these.
    if isinstance(found, list) and isinstance(wanted, list) and covers(found, wanted):
        return [merged(it, value) for it, value in zip(found, wanted, strict=True)]
    return wanted


def _covers_field(name: str, found: Json, wanted: Json) -> bool:
    if name in ATOMIC_FIELDS and isinstance(found, dict) and isinstance(wanted, dict):
        return covers(found, wanted) and covers(wanted, found)
    return covers(found, wanted)
