"""Which container image the nodes of a Cluster run, and how its manifest says so."""

import re

from ottla_operator.model.manifest import Cluster

_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+([-.][0-9A-Za-z.-]+)?")
"""As the definition of a Cluster has it."""


def broker_image(cluster: Cluster, default: str) -> str:
    """Return ``spec.image``, else ``spec.version`` of the repository of ``default``, else ``default`` itself."""
    if cluster.image is not None:
        return cluster.image
    return default if cluster.version is None else f"{_repository(default)}:{cluster.version}"


def version_of(image: str, default: str) -> str | None:
    """Return the ``spec.version`` that means ``image``; None where none does, because it is of another repository."""
    version = image.removeprefix(f"{_repository(default)}:")
    return version if version != image and _VERSION.fullmatch(version) else None


def way_back(
    *, image: str | None, version: str | None, known_image: str | None, known_version: str | None
) -> dict[str, str | None]:
    """Return what to merge into a spec so that all nodes run what all ran last; empty: it says so, or nobody knows.

    An image would win over each later version: only a Cluster gets one that names an image alone, or where no version
    means what ran.

    Args:
        image: ``spec.image``.
        version: ``spec.version``.
        known_image: ``status.image``.
        known_version: ``status.version``.
    """
    if known_version is not None and (version is not None or image is None):
        if (version, image) == (known_version, None):
            return {}
        return {"version": known_version, **({} if image is None else {"image": None})}
    return {} if known_image in (None, image) else {"image": known_image}


def _repository(image: str) -> str:
    """Return ``image`` without tag and digest; a registry's port stays."""
    path, slash, name = image.partition("@")[0].rpartition("/")
    return path + slash + name.partition(":")[0]
