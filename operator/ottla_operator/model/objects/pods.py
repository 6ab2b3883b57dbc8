"""The StatefulSet of a pool, and its pod template."""

from collections.abc import Collection

from ottla_operator.model.cluster_secrets import nodes_secret
from ottla_operator.model.document import Document
from ottla_operator.model.manifest import Cluster, Pool
from ottla_operator.model.nodes import DesiredNode
from ottla_operator.model.objects.accounts import nodes_account
from ottla_operator.model.objects.addresses import ADMIN_PORT, CONTROLLER_PORT, broker_ports, nodes_service
from ottla_operator.model.objects.metadata import (
    BROKER_LABEL,
    CLUSTER_LABEL,
    CONTROLLER_LABEL,
    PARTS_ANNOTATION,
    POOL_LABEL,
    REVISION_ANNOTATION,
    labels,
    metadata,
)
from ottla_operator.model.objects.placement import (
    needs_rack,
    placement,
    rack_arguments,
    rack_container,
    rack_environment,
    rack_volumes,
)
from ottla_operator.model.objects.volumes import log_directories, mounts, volume_claim_templates
from ottla_operator.model.outside import advertises_host_addresses
from ottla_operator.model.quantity import canonical_quantity

_USER_ID = 10_001
"""User ``ottla`` of the image, and owner of the files on its volumes."""
_CONFIGURATION = "/etc/ottla"
FILE_END = ".properties"
"""Suffix of a node's configuration in the pool's ConfigMap."""
TLS = "/etc/ottla-tls"
"""Not inside the configuration's folder: a read-only volume can hold no mount point."""
_TLS_MODE = 0o440
_FROZEN_GRACE_S = 15
"""A process whose loop has not responded for half a minute can seldom end by itself: pods of a roll get longer."""


def stateful_set(
    cluster: Cluster, pool: Pool, template: DesiredNode, replicas: int, image: str, without: Collection[str]
) -> Document:
    """Return the StatefulSet of ``pool``.

    ``without`` names volumes that its pods do not have yet; such pods have another revision, and are restarted later.
    """
    name = f"{cluster.name}-{pool.name}"
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata(cluster, name, pool),
        "spec": {
            "serviceName": nodes_service(cluster),
            "replicas": replicas,
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "OnDelete"},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            "selector": {"matchLabels": {CLUSTER_LABEL: cluster.name, POOL_LABEL: pool.name}},
            "template": {
                "metadata": {
                    "labels": {
                        **pool.template.labels,
                        **labels(cluster, pool),
                        BROKER_LABEL: str(pool.is_broker).lower(),
                        CONTROLLER_LABEL: str(pool.is_controller).lower(),
                    },
                    "annotations": {
                        **pool.template.annotations,
                        REVISION_ANNOTATION: "-".join((template.revision, *sorted(without))),
                        PARTS_ANNOTATION: template.parts,
                    },
                },
                "spec": _pod(cluster, pool, template, name, image, without),
            },
            "volumeClaimTemplates": volume_claim_templates(cluster, pool, without),
        },
    }


def _pod(
    cluster: Cluster, pool: Pool, template: DesiredNode, config_map: str, image: str, without: Collection[str]
) -> Document:
    configuration = f"{_CONFIGURATION}/$(POD_NAME){FILE_END}"
    # Not in server.properties, which pods without the new volumes read as well.
    directories = ["--override", f"log.dirs={log_directories(pool, without)}"] if pool.storage.further else []
    format_arguments = ["format", "-t", cluster.cluster_id, "-c", configuration, "--ignore-formatted", *directories]
    format_arguments += template.format_arguments
    broker = _container("broker", image, ["run", "--config", configuration, *directories], cluster, pool, without)
    broker["args"] += [*rack_arguments(cluster, pool), *_host_address_arguments(cluster)]
    broker["env"] += rack_environment(cluster, pool)
    formatting = _container("format", image, format_arguments, cluster, pool, without)
    return {
        "serviceAccountName": nodes_account(cluster),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER_ID,
            "runAsGroup": _USER_ID,
            "fsGroup": _USER_ID,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": [formatting, *([rack_container(broker)] if needs_rack(cluster, pool) else [])],
        "containers": [
            {
                **broker,
                "ports": [
                    {"name": name, "containerPort": port, "protocol": "TCP"}
                    for name, port in _container_ports(cluster, pool)
                ],
                # Recovery of a large log after a crash may take minutes, and must not be killed.
                "startupProbe": _probe("/healthz", period_s=2, failures=300),
                "livenessProbe": {
                    **_probe("/healthz", period_s=5, failures=6),
                    "terminationGracePeriodSeconds": _FROZEN_GRACE_S,
                },
                "readinessProbe": _probe("/readyz", period_s=2, failures=2),
            }
        ],
        **placement(cluster, pool),
        "volumes": [
            {"name": "configuration", "configMap": {"name": config_map}},
            {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
            *([] if cluster.tls is None else [_tls_volume(cluster)]),
            *rack_volumes(cluster, pool),
        ],
    }


def _host_address_arguments(cluster: Cluster) -> list[str]:
    """Return the arguments with the address of the Kubernetes node, if clients connect to that."""
    return ["--override", "ottla.advertised.host=$(HOST_IP)"] if advertises_host_addresses(cluster) else []


def _of_the_pod(variable: str, field: str) -> Document:
    return {"name": variable, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": field}}}


def _tls_volume(cluster: Cluster) -> Document:
    """Return the volume with the nodes' certificates; pods wait until the Secret exists."""
    return {"name": "tls", "secret": {"secretName": nodes_secret(cluster.name), "defaultMode": _TLS_MODE}}


def _container_ports(cluster: Cluster, pool: Pool) -> list[tuple[str, int]]:
    ports = broker_ports(cluster) if pool.is_broker else []
    ports += [("controller", CONTROLLER_PORT)] if pool.is_controller else []
    return [*ports, ("http", ADMIN_PORT)]


def _container(
    name: str, image: str, arguments: list[str], cluster: Cluster, pool: Pool, without: Collection[str]
) -> Document:
    container: Document = {
        "name": name,
        "image": image,
        "args": arguments,
        "env": [
            _of_the_pod("POD_NAME", "metadata.name"),
            *([_of_the_pod("HOST_IP", "status.hostIP")] if advertises_host_addresses(cluster) else []),
        ],
        # The last lines of a container that failed become the reason in the Cluster's status.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            *mounts(pool, without),
            {"name": "configuration", "mountPath": _CONFIGURATION, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - inside the container, an emptyDir
            *([] if cluster.tls is None else [{"name": "tls", "mountPath": TLS, "readOnly": True}]),
        ],
    }
    if pool.resources:
        container["resources"] = {
            kind: {name: canonical_quantity(amount) for name, amount in amounts.items()}
            for kind, amounts in pool.resources.items()
        }
    return container


def _probe(path: str, *, period_s: int, failures: int) -> Document:
    return {
        "httpGet": {"path": path, "port": "http"},
        "periodSeconds": period_s,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }
