"""The ServiceAccount of a Cluster's pods: one that nobody else uses, so that no right given to others is theirs."""

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
