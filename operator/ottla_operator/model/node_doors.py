"""Where one node listens, and what its server.properties says of that: listeners, certificates, logins, permissions.

A cluster with TLS has two listeners that the spec does not name, both for certificates of the cluster's authority only:
``NODES``, where brokers and the operator come in, and ``CONTROLLER``. There the certificate ``CN=node`` is the
principal ``User:ottla:node``. At clients' listeners no certificate is: they keep the whole name, ``User:CN=...``,
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
    """Where one node lives; the host decides."""

    listen_host: str
    """What the listeners bind; empty for every address."""
    client_host: str
    """What clients are told (``advertised.listeners``) and other nodes dial."""
    client_port: int
    """Of the first listener for clients."""
    controller_port: int
    admin_port: int
    """HTTP: /healthz, /readyz, /metrics and the console."""
    log_directory: str
    further_client_ports: tuple[int, ...] = ()
    """Of the other listeners for clients, in the order of the spec."""
    nodes_port: int = 0
    """Where brokers and the operator come in; 0 without TLS."""
    tls_directory: str = ""
    """The folder with the entries of the nodes' Secret, if the cluster has TLS."""
    outside: Mapping[str, str | None] = field(default_factory=dict)
    """What clients dial, as ``host:port``, where that is not ``client_host``: by the name of the listener. Without a
    host they dial the node's machine. A listener whose address is not known yet, None, is not opened."""

    @property
    def client_ports(self) -> tuple[int, ...]:
        return (self.client_port, *self.further_client_ports)


def listener_properties(cluster: Cluster, pool: Pool, place: Place) -> Mapping[str, str]:
    """Return everything that a node of ``pool`` has to know of listeners, its own and those that it dials."""
    doors = _clients_doors(cluster, place) if pool.is_broker else []
    if pool.is_broker and cluster.tls is not None:
        doors.append((NODES_LISTENER, place.nodes_port, _inside(place, place.nodes_port)))
    if pool.is_controller:
        doors.append((CONTROLLER_LISTENER, place.controller_port, _inside(place, place.controller_port)))
    protocols = {it.kafka_name: it.security_protocol for it in cluster.listeners}
    if cluster.tls is not None:
        protocols[NODES_LISTENER] = "SSL"
    protocols[CONTROLLER_LISTENER] = "PLAINTEXT" if cluster.tls is None else "SSL"
    properties = {
        "listeners": ",".join(f"{name}://{place.listen_host}:{port}" for name, port, _ in doors),
        "advertised.listeners": ",".join(f"{name}://{told}" for name, _, told in doors),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "inter.broker.listener.name": cluster.listeners[0].kafka_name if cluster.tls is None else NODES_LISTENER,
        "controller.listener.names": CONTROLLER_LISTENER,
    }
    if cluster.tls is None:
        return properties
    for name in (NODES_LISTENER, CONTROLLER_LISTENER):
        properties |= _narrowed(name, _among_nodes(place))
    if pool.is_broker:
        for listener in cluster.listeners:
            properties |= _narrowed(listener.kafka_name, {**_transport(listener, place), **_login(listener)})
        properties |= _allowed_urls(cluster)
    return properties


def told_by(advertised_listeners: str) -> dict[str, str]:
    """Return what clients are told to dial, as ``host:port`` by Kafka's name of the listener."""
    entries = (entry.partition("://") for entry in advertised_listeners.split(","))
    return {name: address for name, _, address in entries if address}


def authorization_properties(cluster: Cluster) -> Mapping[str, str]:
    """Return who decides what clients may do, and whom nothing is forbidden."""
    properties = {} if cluster.authorization is None else {_AUTHORIZER: STANDARD_AUTHORIZER}
    if cluster.tls is not None and (properties or _AUTHORIZER in cluster.config):
        properties["super.users"] = ";".join(sorted(cluster.super_users))
    return properties


def _clients_doors(cluster: Cluster, place: Place) -> list[tuple[str, int, str]]:
    """Return name, port, and what clients are told to dial, of every listener for clients that is open."""
    listeners = zip(cluster.listeners, place.client_ports, strict=True)
    doors = [(it, port, place.outside.get(it.name, _inside(place, port))) for it, port in listeners]
    return [(it.kafka_name, port, told) for it, port, told in doors if told is not None]


def _inside(place: Place, port: int) -> str:
    return f"{place.client_host}:{port}"


def _narrowed(listener: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Return ``properties`` for one listener only."""
    return {f"listener.name.{listener.lower()}.{key}": text for key, text in properties.items()}


def _among_nodes(place: Place) -> dict[str, str]:
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
    asks = listener.asks_for == TLS
    properties = {
        **_pem("keystore", place, NODE_PEM if listener.certificate is None else listener_pem(listener)),
        "ssl.client.auth": "required" if asks else "none",
        "ssl.principal.mapping.rules": "DEFAULT",
    }
    if asks:
        properties |= _pem("truststore", place, CLIENTS_CA)
    if listener.certificate is not None:
        # Whoever keeps that certificate may take another name for the next one.
        properties |= {"ssl.allow.dn.changes": "true", "ssl.allow.san.changes": "true"}
    return properties


def _login(listener: Listener) -> dict[str, str]:
    asked = listener.authentication
    if asked is None or asked.type == TLS:
        return {}
    if asked.type == SCRAM:
        # Both: a password that replaces another, and lets in beside it for a while, is kept by the other mechanism.
        return {"sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256"}
    return {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "oauthbearer.sasl.oauthbearer.jwks.endpoint.url": asked.jwks_uri,
        "oauthbearer.sasl.oauthbearer.expected.issuer": asked.issuer,
        "oauthbearer.sasl.oauthbearer.expected.audience": asked.audience,
    }


def _allowed_urls(cluster: Cluster) -> dict[str, str]:
    """Return where keys may come from: from the issuers of the listeners, and whom the spec's config names."""
    urls = [url.strip() for url in cluster.config.get(_ALLOWED_URLS, "").split(",")]
    urls += [it.authentication.jwks_uri for it in cluster.listeners if it.authentication and it.asks_for == OAUTH]
    named = list(dict.fromkeys(filter(None, urls)))
    return {_ALLOWED_URLS: ",".join(named)} if named else {}


def _pem(store: str, place: Place, entry: str) -> dict[str, str]:
    return {f"ssl.{store}.type": "PEM", f"ssl.{store}.location": f"{place.tls_directory}/{entry}"}
