"""The listeners of one node in its server.properties: addresses, certificates, SASL mechanisms, and the authorizer.

A cluster with TLS has two listeners that are not in the spec, both for certificates of the cluster's authority only:
``NODES``, to which brokers and the operator connect, and ``CONTROLLER``. They map the certificate ``CN=node`` to the
principal ``User:ottla:node``. Listeners for clients map no certificate: clients keep the whole name, ``User:CN=...``,
whatever the spec's config says.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla_operator.model.cluster_secrets import CLIENTS_CA, CLUSTER_CA, NODE_PEM, listener_pem
from ottla_operator.model.cluster_tls import (
    NODE_COMMON_NAME,
    NODE_PRINCIPAL,
    OPERATOR_COMMON_NAME,
    OPERATOR_PRINCIPAL,
)
from ottla_operator.model.listeners import OAUTH, SCRAM, TLS, Listener
from ottla_operator.model.manifest import Cluster, Pool

NODES_LISTENER = "NODES"
CONTROLLER_LISTENER = "CONTROLLER"

_AUTHORIZER = "authorizer.class.name"
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
_PRINCIPALS = {NODE_COMMON_NAME: NODE_PRINCIPAL, OPERATOR_COMMON_NAME: OPERATOR_PRINCIPAL}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Addresses, ports and directories of one node; the host chooses them."""

    listen_host: str
    """The bind address of the listeners; empty for every address."""
    client_host: str
    """The host in ``advertised.listeners``, to which clients and other nodes connect."""
    client_port: int
    """Of the first listener for clients."""
    controller_port: int
    admin_port: int
    """HTTP: /healthz, /readyz, /metrics and the console."""
    log_directory: str
    further_client_ports: tuple[int, ...] = ()
    """Of the other listeners for clients, in the order of the spec."""
    nodes_port: int = 0
    """Port of the listener for brokers and the operator; 0 without TLS."""
    tls_directory: str = ""
    """The folder with the entries of the nodes' Secret, if the cluster has TLS."""
    outside: Mapping[str, str | None] = field(default_factory=dict)
    """Advertised ``host:port`` by listener name, if it is not ``client_host``. Without a host, the address of the
    Kubernetes node is advertised. A listener with None has no known address yet and is not opened."""

    @property
    def client_ports(self) -> tuple[int, ...]:
        return (self.client_port, *self.further_client_ports)


def listener_properties(cluster: Cluster, pool: Pool, place: Place) -> Mapping[str, str]:
    """Return all properties of listeners for a node of ``pool``: its own, and of those that it connects to."""
    opened = _client_listeners(cluster, place) if pool.is_broker else []
    if pool.is_broker and cluster.tls is not None:
        opened.append((NODES_LISTENER, place.nodes_port, _inside(place, place.nodes_port)))
    if pool.is_controller:
        opened.append((CONTROLLER_LISTENER, place.controller_port, _inside(place, place.controller_port)))
    protocols = {it.kafka_name: it.security_protocol for it in cluster.listeners}
    if cluster.tls is not None:
        protocols[NODES_LISTENER] = "SSL"
    protocols[CONTROLLER_LISTENER] = "PLAINTEXT" if cluster.tls is None else "SSL"
    properties = {
        "listeners": ",".join(f"{name}://{place.listen_host}:{port}" for name, port, _ in opened),
        "advertised.listeners": ",".join(f"{name}://{address}" for name, _, address in opened),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "inter.broker.listener.name": cluster.listeners[0].kafka_name if cluster.tls is None else NODES_LISTENER,
        "controller.listener.names": CONTROLLER_LISTENER,
    }
    if cluster.tls is None:
        return properties
    for name in (NODES_LISTENER, CONTROLLER_LISTENER):
        properties |= _for_listener(name, _between_nodes(place))
    if pool.is_broker:
        for listener in cluster.listeners:
            properties |= _for_listener(listener.kafka_name, {**_transport(listener, place), **_sasl(listener)})
        properties |= _allowed_urls(cluster)
    return properties


def parse_advertised_listeners(advertised_listeners: str) -> dict[str, str]:
    """Return the advertised ``host:port`` by Kafka's name of the listener."""
    entries = (entry.partition("://") for entry in advertised_listeners.split(","))
    return {name: address for name, _, address in entries if address}


def authorization_properties(cluster: Cluster) -> Mapping[str, str]:
    """Return the authorizer's properties: its class and the super users."""
    properties = {} if cluster.authorization is None else {_AUTHORIZER: STANDARD_AUTHORIZER}
    if cluster.tls is not None and (properties or _AUTHORIZER in cluster.config):
        properties["super.users"] = ";".join(sorted(cluster.super_users))
    return properties


def _client_listeners(cluster: Cluster, place: Place) -> list[tuple[str, int, str]]:
    """Return name, port and advertised address of every open listener for clients."""
    listeners = zip(cluster.listeners, place.client_ports, strict=True)
    advertised = [(it, port, place.outside.get(it.name, _inside(place, port))) for it, port in listeners]
    return [(it.kafka_name, port, address) for it, port, address in advertised if address is not None]


def _inside(place: Place, port: int) -> str:
    return f"{place.client_host}:{port}"


def _for_listener(listener: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Return ``properties`` with the prefix of one listener."""
    return {f"listener.name.{listener.lower()}.{key}": text for key, text in properties.items()}


def _between_nodes(place: Place) -> dict[str, str]:
    rules = (f"RULE:^CN={name}$/{principal.removeprefix('User:')}/" for name, principal in _PRINCIPALS.items())
    return {
        **_pem("keystore", place, NODE_PEM),
        **_pem("truststore", place, CLUSTER_CA),
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": ",".join(rules),
    }


def _transport(listener: Listener, place: Place) -> dict[str, str]:
    if not listener.has_tls:
        return {}
    asks = listener.authentication_type == TLS
    properties = {
        **_pem("keystore", place, NODE_PEM if listener.certificate is None else listener_pem(listener)),
        "ssl.client.auth": "required" if asks else "none",
        "ssl.principal.mapping.rules": "DEFAULT",
    }
    if asks:
        properties |= _pem("truststore", place, CLIENTS_CA)
    if listener.certificate is not None:
        # The issuer may use another name in the next certificate.
        properties |= {"ssl.allow.dn.changes": "true", "ssl.allow.san.changes": "true"}
    return properties


def _sasl(listener: Listener) -> dict[str, str]:
    asked = listener.authentication
    if asked is None or asked.type == TLS:
        return {}
    if asked.type == SCRAM:
        # Both: during an overlap, the replaced password stays valid under the other mechanism.
        return {"sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256"}
    return {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "oauthbearer.sasl.oauthbearer.jwks.endpoint.url": asked.jwks_uri,
        "oauthbearer.sasl.oauthbearer.expected.issuer": asked.issuer,
        "oauthbearer.sasl.oauthbearer.expected.audience": asked.audience,
    }


def _allowed_urls(cluster: Cluster) -> dict[str, str]:
    """Return the URLs of JWKS that brokers may fetch: of the listeners' issuers, and of the spec's config."""
    urls = [url.strip() for url in cluster.config.get(_ALLOWED_URLS, "").split(",")]
    urls += [
        it.authentication.jwks_uri for it in cluster.listeners if it.authentication and it.authentication_type == OAUTH
    ]
    named = list(dict.fromkeys(filter(None, urls)))
    return {_ALLOWED_URLS: ",".join(named)} if named else {}


def _pem(store: str, place: Place, entry: str) -> dict[str, str]:
    return {f"ssl.{store}.type": "PEM", f"ssl.{store}.location": f"{place.tls_directory}/{entry}"}
