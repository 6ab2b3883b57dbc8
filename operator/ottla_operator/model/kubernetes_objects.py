"""The Kubernetes objects of a Cluster, pure: the same cluster gives the same objects, byte for byte.

==================================  ===========================================================================
``ServiceAccount <cluster>-nodes``  the pods' account, without any right; pods do not mount its token
``Service <cluster>-nodes``         headless: a host name for each node, ready or not
``Service <cluster>-bootstrap``     the bootstrap address of clients
``Service ...-<listener>``          for clients outside; see `model.outside`
``ConfigMap <cluster>-<pool>``      a server.properties for each node of the pool
``StatefulSet <cluster>-<pool>``    the pool's pods and, by its template, a volume for each; with TLS, the nodes'
                                    Secret (`model.cluster_secrets`) as a folder of files
==================================  ===========================================================================

All are owned by the Cluster and are deleted with it, except the volumes: a PersistentVolumeClaim has no owner, and a
Cluster of the same name finds them, and the cluster id on them, again; with ``deletionPolicy: Delete`` the Cluster owns
them, too. Only the operator restarts pods (``OnDelete``).
"""

from collections.abc import Collection, Mapping

from ottla_operator.model.document import Document
from ottla_operator.model.listeners import NODE_PORT
from ottla_operator.model.manifest import Cluster, Pool
from ottla_operator.model.node_listeners import Place
from ottla_operator.model.nodes import DesiredCluster, DesiredNode
from ottla_operator.model.objects.accounts import nodes_account_object
from ottla_operator.model.objects.addresses import ADMIN_PORT, CONTROLLER_PORT, NODES_PORT, nodes_service
from ottla_operator.model.objects.metadata import metadata
from ottla_operator.model.objects.outside_services import outside_services
from ottla_operator.model.objects.pods import FILE_END, TLS, stateful_set
from ottla_operator.model.objects.services import bootstrap_service_object, nodes_service_object
from ottla_operator.model.objects.volumes import DATA
from ottla_operator.model.outside import Outside, outside_listeners


def place(cluster: Cluster, pool: Pool, ordinal: int, outside: Outside = Outside()) -> Place:  # noqa: B008 - a value
    """Return the place of a node of ``pool``: the host name that its pod has in the headless service."""
    host = f"{cluster.name}-{pool.name}-{ordinal}.{nodes_service(cluster)}.{cluster.metadata.namespace}.svc"
    return Place(
        listen_host="0.0.0.0",  # noqa: S104 - a pod's own network
        client_host=host,
        client_port=cluster.listeners[0].port,
        further_client_ports=tuple(listener.port for listener in cluster.listeners[1:]),
        nodes_port=0 if cluster.tls is None else NODES_PORT,
        controller_port=CONTROLLER_PORT,
        admin_port=ADMIN_PORT,
        log_directory=f"{DATA}/data",
        tls_directory=TLS,
        outside=outside.advertised_addresses(cluster, pool, ordinal) if pool.is_broker else {},
    )


def objects(desired: DesiredCluster, without: Mapping[str, Collection[str]] | None = None) -> list[Document]:
    """Return every object of the cluster, in the order of creation.

    ``without`` names, by pool, volumes that pods do not get yet.
    """
    cluster = desired.cluster
    result = [
        nodes_account_object(cluster),
        nodes_service_object(cluster),
        bootstrap_service_object(cluster),
        *outside_services(desired),
    ]
    for pool, template in zip(cluster.pools, desired.templates, strict=True):
        nodes = [node for node in desired.nodes if node.pool == pool.name]
        result.append(_config_map(cluster, pool, nodes or [template]))
        to_come = (without or {}).get(pool.name, ())
        result.append(stateful_set(cluster, pool, template, len(nodes), desired.image, to_come))
    return result


def deferred_objects(desired: DesiredCluster) -> set[str]:
    """Return, as ``Kind/name``, objects that are not written yet: nodes would be restarted once node ports are known.

    The API server allocates node ports when it creates the Services. Load balancers take long: nodes do not wait for
    them.
    """
    by_port = [listener.name for listener in outside_listeners(desired.cluster) if listener.type == NODE_PORT]
    held = {node.pool for node in desired.nodes if any(node.place.outside.get(it, "") is None for it in by_port)}
    names = [f"{desired.cluster.name}-{pool}" for pool in held]
    return {f"{kind}/{name}" for kind in ("ConfigMap", "StatefulSet") for name in names}


def _config_map(cluster: Cluster, pool: Pool, nodes: list[DesiredNode]) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(cluster, f"{cluster.name}-{pool.name}", pool),
        "data": {f"{node.name}{FILE_END}": node.properties for node in nodes},
    }
