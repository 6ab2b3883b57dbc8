"""Names of objects for names of Kafka, which may have other characters: valid, unique, and always the same.

=============  ==============================
of Kafka       of the object
=============  ==============================
``orders.eu``  ``orders.eu``: it is valid
``orders_eu``  ``orders-eu-`` and a digest
``Orders.EU``  ``orders.eu-`` and a digest
``__``         ``x-`` and a digest
=============  ==============================
"""

import hashlib
import re
from collections.abc import Collection
from typing import Final

from ottla_operator.model.schema import is_name

NAME_SIZE_MAX: Final = 240
"""Of the 253 characters of an object's name: the name of the password's Secret is longer."""
_DIGEST_SIZE: Final = 8


def object_names(names: Collection[str], *, taken: Collection[str] = ()) -> dict[str, str]:
    """Return the object's name for each of ``names``; ``taken`` are those of other objects.

    A name that is valid stays. Any other has a digest at its end, also where it is the only one of its kind: a later
    export, of more topics, must not find another name for it.
    """
    found = {name: name for name in names if _is_kept(name) and name not in taken}
    taken = {*taken, *found}
    for name in sorted(set(names) - found.keys()):
        digest, size = hashlib.sha256(name.encode()).hexdigest(), _DIGEST_SIZE
        while (candidate := _with_digest(name, digest[:size])) in taken:
            size += _DIGEST_SIZE
        found[name] = candidate
        taken.add(candidate)
    return found


def _is_kept(name: str) -> bool:
    return is_name(name) and len(name) <= NAME_SIZE_MAX


def _with_digest(name: str, digest: str) -> str:
    parts = (re.sub("[^a-z0-9]+", "-", part).strip("-") for part in name.lower().split("."))
    readable = ".".join(filter(None, parts))[: NAME_SIZE_MAX - len(digest) - 1].rstrip("-.")
    return f"{readable or 'x'}-{digest}"
