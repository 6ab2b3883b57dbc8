"""Which container image the nodes of a Cluster run."""

from ottla_operator.model.manifest import Cluster


def broker_image(cluster: Cluster, default: str) -> str:
    """Return ``spec.image``, else ``spec.version`` of the repository of ``default``, else ``default`` itself."""
    if cluster.image is not None:
        return cluster.image
    return default if cluster.version is None else f"{_repository(default)}:{cluster.version}"


def _repository(image: str) -> str:
    """Return ``image`` without tag and digest; a registry's port stays."""
    path, slash, name = image.partition("@")[0].rpartition("/")
    return path + slash + name.partition(":")[0]
