"""The ServiceAccount of a Cluster's pods, for these only: no right granted to another account extends to them."""

from ottla_operator.model.document import Document
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.objects.metadata import metadata


def nodes_account(cluster: Cluster) -> str:
    return f"{cluster.name}-nodes"


def nodes_account_object(cluster: Cluster) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(cluster, nodes_account(cluster)),
        "automountServiceAccountToken": False,
    }
