"""The container image of a Cluster's nodes, from ``spec.image`` and ``spec.version``."""

import re

from ottla_operator.model.manifest import Cluster

_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+([-.][0-9A-Za-z.-]+)?")
"""The same pattern as in the CRD of Cluster."""


def broker_image(cluster: Cluster, default: str) -> str:
    """Return ``spec.image``, else ``spec.version`` of the repository of ``default``, else ``default`` itself."""
    if cluster.image is not None:
        return cluster.image
    return default if cluster.version is None else f"{_repository(default)}:{cluster.version}"


def version_of(image: str, default: str) -> str | None:
    """Return the ``spec.version`` that means ``image``; None if it is of another repository."""
    version = image.removeprefix(f"{_repository(default)}:")
    return version if version != image and _VERSION.fullmatch(version) else None


def rollback_patch(
    *, image: str | None, version: str | None, known_image: str | None, known_version: str | None
) -> dict[str, str | None]:
    """Return the merge patch of a spec that makes all nodes run the last known image; empty if nothing is to change.

    The patch is empty, too, when that image is not known. An image would win over each later version: only a Cluster
    that names an image alone gets one, or one whose last image no version means.

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
