"""The Secrets of a Cluster with TLS: their names, and those of their entries.

===================================  =======================================================  ===================
Secret                               entries                                                  read by
===================================  =======================================================  ===================
``<cluster>-cluster-ca``             `CA_CERTIFICATE`, `CA_KEY`, `CA_TRUSTED`                 the operator
``<cluster>-clients-ca``             the same                                                 the operator
``<cluster>-nodes``                  `NODE_PEM`, `CLUSTER_CA`, `CLIENTS_CA`, `listener_pem`,  every node
                                     `trusted_entry`
``<cluster>-operator``               `CLIENT_PROPERTIES` and its parts                        the operator
===================================  =======================================================  ===================
"""

from ottla_operator.model.listeners import Listener

CA_CERTIFICATE = "ca.crt"
CA_KEY = "ca.key"
CA_TRUSTED = "trusted.crt"
"""All trusted certificates, the present authority first."""

NODE_PEM = "node.pem"
"""Key and chain of the certificate that all nodes have."""
CLUSTER_CA = "cluster-ca.crt"
"""The authorities that nodes trust for connections between nodes."""
CLIENTS_CA = "clients-ca.crt"
"""The authorities that listeners of the type tls trust."""

CLIENT_PROPERTIES = "client.properties"


def listener_pem(listener: Listener) -> str:
    """Return the entry with key and chain of a listener that has a certificate of its own."""
    return f"listener-{listener.name}.pem"


def trusted_entry(listener: Listener) -> str:
    """Return the entry with the authorities that clients of a listener must trust; public authorities have no entry."""
    return CLUSTER_CA if listener.certificate is None else f"listener-{listener.name}-ca.crt"


def cluster_ca_secret(cluster: str) -> str:
    return f"{cluster}-cluster-ca"


def clients_ca_secret(cluster: str) -> str:
    return f"{cluster}-clients-ca"


def nodes_secret(cluster: str) -> str:
    return f"{cluster}-nodes"


def operator_secret(cluster: str) -> str:
    return f"{cluster}-operator"
