"""Brokers that advertise names of pods, reached through kubectl."""

import os
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.exit_codes import ExitCode
from ottla.cli.kubernetes import forwarding
from ottla.cli.kubernetes.forwarding import target_of
from ottla.client.connection import ROUTE


@pytest.mark.parametrize(
    ("host", "target"),
    [
        ("demo-bootstrap.default.svc", "service/demo-bootstrap"),
        ("demo-bootstrap.default.svc.cluster.local", "service/demo-bootstrap"),
        ("demo-main-0.demo-nodes.default.svc", "pod/demo-main-0"),
        ("demo-main-0.demo-nodes.default.svc.cluster.local", "pod/demo-main-0"),
        ("kafka.example.org", None),
        ("10.0.0.1", None),
        ("svc", None),
    ],
)
def test_forward_target_of_a_host(host: str, target: str | None) -> None:
    assert target_of(host) == target


def test_record_is_produced_and_consumed_through_forwards(kubectl_ottla: Any, forwarded: Any) -> None:
    code, _, said = kubectl_ottla("topic", "create", "orders", "-p", "2")
    assert code == 0, said
    code, _, said = kubectl_ottla("produce", "orders", stdin=b"hello\n")
    assert code == 0, said
    assert kubectl_ottla("consume", "orders", "-n", "1")[1] == "hello\n"
    assert forwarded.forwards()[0] == "service/demo-bootstrap"
    assert "pod/demo-main-0" in forwarded.forwards(), "the client connects to advertised addresses"


def test_forwards_end_with_their_command(kubectl_ottla: Any, forwarded: Any) -> None:
    assert kubectl_ottla("topic", "list")[0] == 0
    assert ROUTE.get() is None
    assert forwarded.forwarders
    for process_id in forwarded.forwarders:
        with pytest.raises(ProcessLookupError):
            os.kill(process_id, 0)


def test_missing_pod_is_named(kubectl_ottla: Any, forwarded: Any) -> None:
    (forwarded.root / "addresses" / "service-demo-bootstrap").unlink()
    code, _, said = kubectl_ottla("topic", "list", "--timeout", "1")
    assert (code, "service/demo-bootstrap not found" in said) == (ExitCode.TIMEOUT, True)


def test_forward_that_never_starts_times_out(
    kubectl_ottla: Any, forwarded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarding, "_LISTENS_WITHIN_S", 0.5)
    (forwarded.root / "SILENT").touch()
    code, _, said = kubectl_ottla("topic", "list", "--timeout", "5")
    assert (code, "service/demo-bootstrap: it printed nothing for 0.5 s" in said) == (ExitCode.TIMEOUT, True), said


def test_cluster_without_an_address_suggests_status(kubectl_ottla: Any, server: Any) -> None:
    document = server.object("clusters.ottla.dev", "demo")
    del document["status"]["bootstrapServers"]
    server.put("clusters.ottla.dev", document)
    code, _, said = kubectl_ottla("topic", "list")
    assert (code, "kubectl ottla status" in said) == (ExitCode.ERROR, True)


def test_user_authenticates_with_its_secret(kubectl_ottla: Any, forwarded: Any) -> None:
    properties = "security.protocol=PLAINTEXT\n"
    forwarded.secret(
        "alice", **{"bootstrap-servers": "demo-bootstrap.default.svc:9092", "client_properties": properties}
    )
    assert kubectl_ottla("--user", "alice", "topic", "list")[0] == 0
    assert any(words[:3] == ["get", "secret", "alice"] for words in forwarded.said)


def test_secret_of_no_user_is_rejected(kubectl_ottla: Any, forwarded: Any) -> None:
    forwarded.secret("other", password="x")
    code, _, said = kubectl_ottla("--user", "other", "topic", "list")
    assert (code, "not that of a User" in said) == (ExitCode.ERROR, True)


def test_secured_cluster_is_used_as_the_operator(kubectl_ottla: Any, forwarded: Any) -> None:
    document = forwarded.object("clusters.ottla.dev", "demo")
    document["spec"]["tls"] = {}
    forwarded.put("clusters.ottla.dev", document)
    forwarded.secret("demo-operator", client_properties="security.protocol=NONSENSE\n")
    code, _, said = kubectl_ottla("topic", "list")
    assert (code, "NONSENSE" in said) == (ExitCode.ERROR, True), "its properties are what is used"


def test_command_config_needs_no_access_to_the_operators_secret(
    kubectl_ottla: Any, forwarded: Any, tmp_path: Path
) -> None:
    document = forwarded.object("clusters.ottla.dev", "demo")
    document["spec"]["tls"] = {}
    forwarded.put("clusters.ottla.dev", document)
    file = tmp_path / "mine.properties"
    file.write_text("security.protocol=PLAINTEXT\n")
    code, _, said = kubectl_ottla("topic", "list", "--command-config", str(file))
    assert code == 0, said


def test_help_sends_no_request(kubectl_ottla: Any, server: Any) -> None:
    for command in ("topic", "status", "consume"):
        assert kubectl_ottla(command, "--help")[0] == 0
    assert server.said == []
