"""`ottla doctor` at real nodes and servers, each with another problem."""

import http.server
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.exit_codes import ExitCode
from ottla.config.properties import parse_properties

PASSWORD = "alice-secret"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
LISTENERS = {
    "OPEN": "PLAINTEXT",
    "AWAY": "PLAINTEXT",
    "LOGIN": "SASL_PLAINTEXT",
    "TLS": "SSL",
    "BOTH": "SASL_SSL",
    "MUTUAL": "SSL",
    "EXPIRED": "SSL",
    "OTHER": "SSL",
    "SOON": "SSL",
}


@dataclass(kw_only=True)
class ListenersNode:
    """A node with a listener for each kind of problem."""

    folder: Path
    ports: dict[str, int]
    nowhere: int

    def at(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports[listener]}"

    def config(self, protocol: str, **more: str) -> str:
        """Return the path of a client's properties."""
        said = {"security.protocol": protocol}
        if protocol.endswith("SSL"):
            said |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.folder / "ca.pem")}
        said |= {key.replace("_", "."): text for key, text in more.items()}
        path = self.folder / "client.properties"
        path.write_text("".join(f"{key}={text}\n" for key, text in said.items()))
        return str(path)

    def login(self, user: str, password: str = PASSWORD, protocol: str = "SASL_PLAINTEXT") -> str:
        jaas = f'{PLAIN} required username="{user}" password="{password}";'
        return self.config(protocol, sasl_mechanism="PLAIN", sasl_jaas_config=jaas)


@pytest.fixture(scope="module")
def nodes(
    tmp_path_factory: pytest.TempPathFactory,
    free_port: Callable[[], int],
    authority: Any,
    listener_properties: Callable[..., dict[str, str]],
    run_node: Callable[..., Any],
) -> Iterator[ListenersNode]:
    folder = tmp_path_factory.mktemp("nodes")
    ports = {listener: free_port() for listener in LISTENERS}
    nowhere = free_port()
    certificates = {
        "node": authority.issue(),
        "expired": authority.issue(days=(-10, -1)),
        "other": authority.issue(hosts=("broker.example",)),
        "soon": authority.issue(days=(-10, 3)),
    }
    advertised = {listener: nowhere if listener == "AWAY" else port for listener, port in ports.items()}
    properties = {
        **listener_properties(folder, LISTENERS, ports, certificates),
        "advertised.listeners": ",".join(f"{listener}://127.0.0.1:{port}" for listener, port in advertised.items()),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "sasl.enabled.mechanisms": "PLAIN",
        **{
            f"listener.name.{name}.plain.sasl.jaas.config": f'{PLAIN} required user_alice="{PASSWORD}";'
            for name in ("login", "both")
        },
    }
    running = run_node(properties)
    yield ListenersNode(folder=folder, ports=ports, nowhere=nowhere)
    assert PASSWORD not in running.log_text()


@pytest.fixture
def examine(run: Any) -> Callable[..., tuple[int, dict[str, tuple[str, str, str]]]]:
    """Return a function that runs `ottla doctor` and returns its code, and status, message and remedy by check.

    If a check runs more than once, the worst finding counts.
    """

    def examined(bootstrap: str, config: str = "", *more: str) -> tuple[int, dict[str, tuple[str, str, str]]]:
        chosen = ("--command-config", config) if config else ()
        ran = run("doctor", "-b", bootstrap, *chosen, *more, "-o", "json")
        assert PASSWORD not in ran.out + ran.err
        assert "wrong-secret" not in ran.out + ran.err
        document = json.loads(ran.out)
        assert document["exitCode"] == ran.code
        found: dict[str, tuple[str, str, str]] = {}
        for row in document["findings"]:
            if row["check"] not in found or row["verdict"] != "ok":
                found[row["check"]] = (row["verdict"], row["said"], row["nextStep"] or "")
        return ran.code, found

    return examined


Examine = Callable[..., tuple[int, dict[str, tuple[str, str, str]]]]


def test_healthy_cluster_passes_all_checks(nodes: ListenersNode, run: Any) -> None:
    ran = run("doctor", "-b", nodes.at("OPEN"))
    assert ran.code == ExitCode.OK, ran.out
    assert "speaks Kafka without TLS" in ran.out
    assert "that listener has no SASL" in ran.out
    assert f"broker 1: responds at its advertised address {nodes.at('OPEN')}" in ran.out
    assert "1 registered, none is fenced" in ran.out
    assert "node 1 leads in epoch" in ran.out
    assert "this clock and that of node 1 agree" in ran.out
    assert "have a leader and are in sync" in ran.out
    assert "this user may create, alter, describe" in ran.out
    assert ran.out.endswith("checks, all is well\n")


def test_sasl_over_tls_passes_all_checks(nodes: ListenersNode, examine: Examine) -> None:
    code, found = examine(nodes.at("BOTH"), nodes.login("alice", protocol="SASL_SSL"))
    assert code == ExitCode.OK, found
    assert found["tls"][1].startswith("TLSv1.3 with ")
    assert "for localhost, 127.0.0.1, signed by CN=Test CA" in found["certificate"][1]
    assert found["trust"][0] == "ok"
    assert found["mechanisms"][1] == "enabled are PLAIN"
    assert found["login"][1] == "authenticated as alice with PLAIN"
    assert found["quorum"][:2] == ("warning", "this user may not describe it")


def test_name_without_an_address(examine: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown_host(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown_host)
    code, found = examine("no-such-broker:9092")
    assert code == ExitCode.TIMEOUT
    assert found["name"][0] == "timeout"
    assert "no-such-broker has no address: Name or service not known" in found["name"][1]
    assert "spelling" in found["name"][2]


def test_port_without_a_listener(nodes: ListenersNode, examine: Examine) -> None:
    code, found = examine(f"127.0.0.1:{nodes.nowhere}")
    assert code == ExitCode.TIMEOUT
    assert found["tcp"][:2] == ("timeout", f"127.0.0.1: no process listens at port {nodes.nowhere}")
    assert "start the broker" in found["tcp"][2]


def test_one_dead_address_next_to_a_good_one_is_no_timeout(nodes: ListenersNode, examine: Examine) -> None:
    code, found = examine(f"127.0.0.1:{nodes.nowhere},{nodes.at('OPEN')}")
    assert code == ExitCode.UNHEALTHY
    assert found["tcp"][0] == "timeout"
    assert found["brokers"][0] == "ok"


def test_http_server(examine: Examine) -> None:
    class Silent(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = http.server.HTTPServer(("127.0.0.1", 0), Silent)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        code, found = examine(f"127.0.0.1:{server.server_port}", "", "--timeout", "1")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert code == ExitCode.UNHEALTHY
    assert found["protocol"][1].startswith("speaks HTTP")
    assert "port of a Kafka listener" in found["protocol"][2]


def test_port_that_sends_nothing(examine: Examine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        code, found = examine(f"127.0.0.1:{server.getsockname()[1]}", "", "--timeout", "0.2")
    assert code == ExitCode.UNHEALTHY
    assert found["protocol"][1].startswith("speaks no protocol: it sends nothing")
    assert "hanging broker" in found["protocol"][2]


def test_mismatch_of_tls_and_security_protocol(nodes: ListenersNode, examine: Examine) -> None:
    code, found = examine(nodes.at("TLS"))
    assert code == ExitCode.UNHEALTHY
    assert found["protocol"] == (
        "unhealthy",
        "speaks TLS, and security.protocol is PLAINTEXT",
        "set security.protocol=SSL in --command-config",
    )
    code, found = examine(nodes.at("LOGIN"), nodes.login("alice", protocol="SASL_SSL"))
    assert code == ExitCode.UNHEALTHY
    assert "set security.protocol=SASL_PLAINTEXT" in found["protocol"][2]


@pytest.mark.parametrize(
    ("listener", "check", "said", "step"),
    [
        pytest.param("EXPIRED", "certificate", "valid ", "it has expired", id="expired"),
        pytest.param("EXPIRED", "trust", "has expired", "its owner has to renew it", id="expired-rejected"),
        pytest.param("OTHER", "trust", "is for another name", "connect to a name that is in it", id="wrong-name"),
        pytest.param("MUTUAL", "trust", "demands a certificate of the client", "ssl.keystore.location", id="mutual"),
    ],
)
def test_invalid_certificate(
    nodes: ListenersNode, examine: Examine, listener: str, check: str, said: str, step: str
) -> None:
    code, found = examine(nodes.at(listener), nodes.config("SSL"))
    assert code == ExitCode.UNHEALTHY
    assert found[check][0] == "unhealthy"
    assert said in found[check][1]
    assert step in found[check][2]
    assert "brokers" not in found, "no request is sent through a listener that rejects the client"


def test_names_of_a_certificate_are_shown(nodes: ListenersNode, examine: Examine) -> None:
    assert "for broker.example," in examine(nodes.at("OTHER"), nodes.config("SSL"))[1]["certificate"][1]


def test_unknown_authority(nodes: ListenersNode, examine: Examine, new_authority: Callable[..., Any]) -> None:
    path = nodes.folder / "stranger.pem"
    path.write_text(new_authority("Somebody else").pem)
    code, found = examine(nodes.at("TLS"), nodes.config("SSL", ssl_truststore_location=str(path)))
    assert code == ExitCode.UNHEALTHY
    assert "an authority that this client does not trust" in found["trust"][1]
    assert "ssl.truststore.location" in found["trust"][2]


def test_certificate_that_expires_soon_is_a_warning(nodes: ListenersNode, examine: Examine) -> None:
    code, found = examine(nodes.at("SOON"), nodes.config("SSL"))
    assert code == ExitCode.OK
    assert found["certificate"][0] == "warning"
    assert "it ends in 2 days" in found["certificate"][2]


def test_wrong_password(nodes: ListenersNode, examine: Examine) -> None:
    code, found = examine(nodes.at("LOGIN"), nodes.login("alice", "wrong-secret"))
    assert code == ExitCode.DENIED
    assert found["login"][0] == "denied"
    assert "as alice with PLAIN: Authentication failed: Invalid username or password" in found["login"][1]
    assert found["login"][2].startswith("check name and password")
    assert "those of PLAIN are in the listener's own sasl.jaas.config" in found["login"][2]


def test_mechanism_that_is_not_enabled(nodes: ListenersNode, examine: Examine) -> None:
    jaas = f'{SCRAM} required username="alice" password="{PASSWORD}";'
    config = nodes.config("SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-512", sasl_jaas_config=jaas)
    code, found = examine(nodes.at("LOGIN"), config)
    assert code == ExitCode.DENIED
    assert found["mechanisms"][:2] == ("denied", "SCRAM-SHA-512 is not enabled there; enabled are PLAIN")
    assert "sasl.enabled.mechanisms" in found["mechanisms"][2]


def test_missing_and_superfluous_credentials(nodes: ListenersNode, examine: Examine) -> None:
    code, found = examine(nodes.at("LOGIN"))
    assert code == ExitCode.DENIED
    assert "requires SASL with one of PLAIN, and this client has no credentials" in found["mechanisms"][1]
    assert "security.protocol=SASL_PLAINTEXT" in found["mechanisms"][2]
    code, found = examine(nodes.at("OPEN"), nodes.login("alice"))
    assert code == ExitCode.UNHEALTHY
    assert "that listener has no SASL, and this client has credentials for PLAIN" in found["mechanisms"][1]
    assert "set security.protocol=PLAINTEXT" in found["mechanisms"][2]


def test_advertised_address_that_cannot_be_reached(nodes: ListenersNode, examine: Examine) -> None:
    code, found = examine(nodes.at("AWAY"), "", "--timeout", "2")
    assert code == ExitCode.UNHEALTHY
    status, said, step = found["advertised address"]
    assert status == "unhealthy"
    assert f"the advertised address of that listener is 127.0.0.1:{nodes.nowhere}" in said
    assert "set advertised.listeners of broker 1" in step


def test_missing_permission(nodes: ListenersNode, examine: Examine, run: Any) -> None:
    assert run("topic", "create", "orders", "-b", nodes.at("OPEN")).code == 0
    me, chosen = nodes.login("alice"), ("--topic", "orders", "--group", "audit")

    def found_for(*more: str) -> tuple[int, tuple[str, str, str]]:
        code, found = examine(nodes.at("LOGIN"), me, *more)
        return code, found["permissions"]

    assert found_for("--topic", "orders") == (
        ExitCode.DENIED,
        (
            "denied",
            "this user may do nothing with it, not even see it",
            "as an administrator: ottla acl add User:alice --allow read --topic orders (or --allow write)",
        ),
    )
    code, (_, said, step) = found_for("--group", "audit")
    assert (code, said) == (ExitCode.DENIED, "this user may do nothing with it")
    assert step.endswith("--allow read --group audit")
    add = ("acl", "add", "User:alice", "-b", nodes.at("OPEN"))
    assert run(*add, "--allow", "describe", "--topic", "orders", "--group", "audit").code == 0
    code, (_, said, _) = found_for("--topic", "orders")
    assert (code, said) == (ExitCode.DENIED, "this user may describe, but neither read nor write")
    code, (_, said, _) = found_for("--group", "audit")
    assert (code, said) == (ExitCode.DENIED, "this user may describe, but not read, which members need")
    assert run(*add, "--allow", "read", "--topic", "orders", "--group", "audit").code == 0
    ran = run("doctor", "-b", nodes.at("LOGIN"), "--command-config", me, *chosen)
    assert ran.code == ExitCode.OK
    assert "topic orders: this user may read, describe" in ran.out
    assert "group audit: this user may read, describe" in ran.out


def test_missing_topic(nodes: ListenersNode, examine: Examine) -> None:
    code, found = examine(nodes.at("OPEN"), "", "--topic", "oders")
    assert code == ExitCode.UNHEALTHY
    assert found["permissions"][1] == "there is no such topic"


def test_example_of_a_secured_node_authenticates_only_its_administrator(
    free_port: Callable[[], int], run_node: Callable[..., Any], examine: Examine, tmp_path: Path
) -> None:
    examples = Path(__file__).parents[3] / "examples"
    clients, controller = str(free_port()), str(free_port())
    text = (examples / "locked.properties").read_text().replace("9092", clients).replace("9093", controller)
    properties = parse_properties(text)
    del properties["log.dirs"]
    scram = "--add-scram=SCRAM-SHA-512=[name=admin,password=change-me]"
    node = run_node(properties, formatted=("--standalone", scram))
    config = tmp_path / "admin.properties"
    config.write_text((examples / "admin.properties").read_text().replace("9092", clients))
    code, found = examine(f"127.0.0.1:{clients}", str(config))
    assert code == ExitCode.OK, found
    assert found["login"][1] == "authenticated as admin with SCRAM-SHA-512"
    assert examine(f"127.0.0.1:{clients}")[0] == ExitCode.DENIED
    assert "change-me" not in node.log_text()


@pytest.fixture
def two_nodes(free_port: Callable[[], int], run_node: Callable[..., Any]) -> list[tuple[str, Any]]:
    """Return addresses and processes of a controller that is a broker too, and of a broker."""
    controller = free_port()
    nodes = []
    for node_id, roles in ((1, "broker,controller"), (2, "broker")):
        port = free_port()
        listeners = f"PLAINTEXT://127.0.0.1:{port}"
        properties = {
            "process.roles": roles,
            "node.id": str(node_id),
            "listeners": listeners + (f",CONTROLLER://127.0.0.1:{controller}" if node_id == 1 else ""),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
            "offsets.topic.replication.factor": "1",
            "broker.session.timeout.ms": "2000",
            "broker.heartbeat.interval.ms": "300",
        }
        formatted = ("--standalone",) if node_id == 1 else ("--no-initial-controllers",)
        nodes.append((f"127.0.0.1:{port}", run_node(properties, formatted=formatted)))
    return nodes


def test_dead_brokers(two_nodes: list[tuple[str, Any]], examine: Examine, run: Any) -> None:
    (first, controller), (second, broker) = two_nodes
    for topic, partitions, replicas, min_isr in (("lone", 2, 1, 1), ("pair", 1, 2, 1), ("strict", 1, 2, 2)):
        shape = ("-p", str(partitions), "-r", str(replicas), "-c", f"min.insync.replicas={min_isr}")
        made = run("topic", "create", topic, *shape, "-b", first)
        assert made.code == 0, made.err
    assert examine(first)[0] == ExitCode.OK

    broker.kill()
    deadline = time.monotonic() + 30
    while (found := examine(first, "", "--timeout", "2")[1])["brokers"][0] == "ok" and time.monotonic() < deadline:
        time.sleep(0.2)
    assert found["brokers"][1] == "1 of 2 are fenced: 2"
    assert "ottla broker decommission 2" in found["brokers"][2]
    ran = run("doctor", "-b", first)
    assert ran.code == ExitCode.UNHEALTHY
    assert "1 of 4 are without a leader: lone-" in ran.out
    assert "1 of 4 are under min.insync.replicas: producers with acks=all are rejected: strict-0" in ran.out
    assert "1 of 4 are under-replicated: pair-0" in ran.out

    broker.start()
    controller.kill()
    code, found = examine(second, "", "--timeout", "2")
    assert code == ExitCode.UNHEALTHY
    assert found["advertised address"][0] == "unhealthy"
    assert f"is {first}, which fails from here: nothing listens" in found["advertised address"][1]
    assert found["quorum"][0] == "unhealthy"
    assert "majority of the controllers" in found["quorum"][2]
