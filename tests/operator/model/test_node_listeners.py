"""Listeners, certificates and permissions in Kafka's keys, read back by the broker's own configuration."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ottla.config.node_config import NodeConfig
from ottla.config.properties import parse_properties
from ottla.config.tls_settings import read_tls_settings
from ottla.security.principal_mapping import NoMatchingRuleError, PrincipalMapping
from ottla_operator.model.manifest import Cluster, Pool
from ottla_operator.model.node_listeners import Place
from ottla_operator.model.nodes import desired_cluster

Document = dict[str, Any]
Builder = Callable[..., Document]
Render = Callable[..., dict[str, dict[str, str]]]

SCRAM: Document = {"type": "scram-sha-512"}
OAUTH: Document = {"type": "oauth", "issuer": "https://i", "audience": "a", "jwksUri": "https://i/keys"}
POOLS = [
    {"name": name, "nodes": 1, "roles": roles, "firstNodeId": first, "storage": {"size": "1Gi"}}
    for name, roles, first in (("both", ["broker", "controller"], 0), ("b", ["broker"], 10), ("c", ["controller"], 20))
]


def place(cluster: Cluster, node_id: int) -> Place:
    return Place(
        listen_host="0.0.0.0",
        client_host=f"node-{node_id}",
        client_port=9094,
        further_client_ports=tuple(range(9095, 9094 + len(cluster.listeners))),
        nodes_port=9091,
        controller_port=9093,
        admin_port=8080,
        log_directory="/data",
        tls_directory="/tls",
    )


@pytest.fixture
def render(cluster_manifest: Builder) -> Render:
    """Return a function from a spec to the properties of a node of each kind: ``both``, ``b`` and ``c``."""

    def of(config: Mapping[str, str] | None = None, **spec: Any) -> dict[str, dict[str, str]]:
        manifest = cluster_manifest(config=config, spec=spec)
        manifest["spec"]["pools"] = POOLS
        cluster = Cluster.parse(manifest)

        def where(_: Pool, __: int, node_id: int) -> Place:
            return place(cluster, node_id)

        nodes = {node.pool: parse_properties(node.properties) for node in desired_cluster(cluster, where).nodes}
        for properties in nodes.values():
            assert NodeConfig.from_properties(properties).warnings == ()
        return nodes

    return of


def test_nodes_have_listeners_of_their_own(render: Render) -> None:
    nodes = render(tls={}, listeners=[{"name": "clients", "port": 9094}, {"name": "more", "port": 9095, "tls": True}])

    assert {name: it["advertised.listeners"] for name, it in nodes.items()} == {
        "both": "CLIENTS://node-0:9094,MORE://node-0:9095,NODES://node-0:9091,CONTROLLER://node-0:9093",
        "b": "CLIENTS://node-10:9094,MORE://node-10:9095,NODES://node-10:9091",
        "c": "CONTROLLER://node-20:9093",
    }
    for properties in nodes.values():
        assert properties["listeners"] == properties["advertised.listeners"].replace(
            f"node-{properties['node.id']}", "0.0.0.0"
        )
        assert properties["listener.security.protocol.map"] == "CLIENTS:PLAINTEXT,MORE:SSL,NODES:SSL,CONTROLLER:SSL"
        assert properties["inter.broker.listener.name"] == "NODES"


def test_tls_without_listeners_keeps_the_plain_listener(render: Render) -> None:
    properties = render(tls={})["b"]

    assert properties["listeners"] == "PLAINTEXT://0.0.0.0:9094,NODES://0.0.0.0:9091"


@pytest.mark.parametrize("listener", ["NODES", "CONTROLLER"])
@pytest.mark.parametrize("pool", ["both", "b", "c"])
def test_nodes_require_certificates_of_each_other(render: Render, pool: str, listener: str) -> None:
    properties = render(tls={}, config={"ssl.keystore.location": "/mine", "ssl.client.auth": "none"})[pool]

    settings = read_tls_settings(properties, listener)

    assert settings.key_store is not None
    assert settings.trust_store is not None
    assert (settings.key_store.type, settings.key_store.location) == ("PEM", "/tls/node.pem")
    assert (settings.trust_store.type, settings.trust_store.location) == ("PEM", "/tls/cluster-ca.crt")
    assert (settings.client_auth, settings.verifies_host) == ("required", True)


def mapping(properties: Mapping[str, str], listener: str) -> PrincipalMapping:
    return PrincipalMapping(properties[f"listener.name.{listener}.ssl.principal.mapping.rules"])


@pytest.mark.parametrize("listener", ["nodes", "controller"])
def test_only_nodes_and_the_operator_are_known_there(render: Render, listener: str) -> None:
    names = mapping(render(tls={})["both"], listener)

    assert names.principal("CN=node") == "User:ottla:node"
    assert names.principal("CN=operator") == "User:ottla:operator"
    for stranger in ("CN=alice", "CN=node,O=x", "O=x,CN=node", "CN=nodes", "CN=Node", "CN=node\n"):
        with pytest.raises(NoMatchingRuleError):
            names.principal(stranger)


def test_certificates_of_clients_keep_their_whole_name(render: Render) -> None:
    rules = "RULE:^CN=(.*)$/$1/"
    listener = {"name": "certs", "port": 9094, "tls": True, "authentication": {"type": "tls"}}
    properties = render(tls={}, listeners=[listener], config={"ssl.principal.mapping.rules": rules})["both"]

    assert mapping(properties, "certs").principal("CN=ottla:node") == "User:CN=ottla:node"
    settings = read_tls_settings(properties, "CERTS")
    assert settings.client_auth == "required"
    assert settings.trust_store is not None
    assert settings.trust_store.location == "/tls/clients-ca.crt"


def test_listener_without_client_certificates_has_no_trust_store(render: Render) -> None:
    listener = {"name": "a", "port": 9094, "tls": True, "authentication": SCRAM}
    settings = read_tls_settings(render(tls={}, listeners=[listener])["b"], "A")

    assert (settings.client_auth, settings.trust_store) == ("none", None)
    assert settings.key_store is not None
    assert settings.key_store.location == "/tls/node.pem"


@pytest.mark.parametrize("certificate", [{"secretName": "mine"}, {"issuerRef": {"name": "i"}}])
def test_own_certificate_of_a_listener_is_a_file_of_its_own(render: Render, certificate: Document) -> None:
    listener = {"name": "a", "port": 9094, "tls": True, "certificate": certificate}
    settings = read_tls_settings(render(tls={}, listeners=[listener])["b"], "A")

    assert settings.key_store is not None
    assert settings.key_store.location == "/tls/listener-a.pem"
    # The issuer decides on its subject.
    assert (settings.allows_dn_changes, settings.allows_san_changes) == (True, True)


def test_both_scram_mechanisms_are_enabled(render: Render) -> None:
    listeners = [
        {"name": "a", "port": 9094, "tls": True, "authentication": SCRAM},
        {"name": "b", "port": 9095, "authentication": SCRAM},
        {"name": "c", "port": 9096},
    ]
    config = NodeConfig.from_properties(render(tls={}, listeners=listeners)["both"])

    assert {name: it.mechanisms for name, it in config.sasl.listeners.items()} == {
        "A": ("SCRAM-SHA-512", "SCRAM-SHA-256"),
        "B": ("SCRAM-SHA-512", "SCRAM-SHA-256"),
    }


def test_tokens_count_by_their_listener(render: Render) -> None:
    other = {**OAUTH, "issuer": "https://j", "jwksUri": "https://j/keys"}
    listeners = [
        {"name": name, "port": port, "tls": True, "authentication": asked}
        for name, port, asked in (("a", 9094, OAUTH), ("b", 9095, other))
    ]
    allowed = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
    properties = render(tls={}, listeners=listeners, config={allowed: "https://k, https://i/keys"})["b"]

    oauth = {name: it.oauth for name, it in NodeConfig.from_properties(properties).sasl.listeners.items()}
    assert {name: (it.fetch.url, it.issuer, it.audiences) for name, it in oauth.items() if it is not None} == {
        "A": ("https://i/keys", "https://i", ("a",)),
        "B": ("https://j/keys", "https://j", ("a",)),
    }
    assert properties[allowed] == "https://k,https://i/keys,https://j/keys"


def test_authorizer_applies_to_all_but_super_users(render: Render) -> None:
    for properties in render(tls={}, authorization={"superUsers": ["User:b", "User:CN=a"]}).values():
        config = NodeConfig.from_properties(properties)
        assert config.authorizer_class_name == "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        assert config.super_users == "User:CN=a;User:b;User:ottla:node;User:ottla:operator"


def test_authorizer_of_the_config_does_not_lock_nodes_out(render: Render) -> None:
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    config = {"authorizer.class.name": authorizer, "super.users": "User:a"}

    assert render(tls={}, config=config)["both"]["super.users"] == "User:a;User:ottla:node;User:ottla:operator"
    assert render(config=config)["both"]["super.users"] == "User:a"


def test_there_is_no_authorizer_without_authorization(render: Render) -> None:
    assert not {"authorizer.class.name", "super.users"} & render(tls={})["both"].keys()
