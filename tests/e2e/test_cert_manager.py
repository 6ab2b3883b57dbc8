"""A listener whose certificate is cert-manager's: a cluster starts with it, and a new one disturbs no client.

cert-manager is the one of the cluster, or the one that `tests/e2e/build_cert_manager` built, run next to these tests.
"""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

Document = dict[str, Any]
DEFINITION = "certificates.cert-manager.io"
CONTROLLERS = (
    *("issuers", "certificates-trigger", "certificates-issuing", "certificates-key-manager"),
    *("certificates-request-manager", "certificates-readiness", "certificates-revision-manager"),
    *("certificaterequests-approver", "certificaterequests-issuer-ca", "certificaterequests-issuer-selfsigned"),
)
RENEWAL_S = 420
"""The operator looks at a Secret every five minutes; a kubelet brings it to a pod a minute later, or two."""

FROM_ISSUER = {"issuerRef": {"name": "house"}}
CLUSTER: Document = {
    "apiVersion": "ottla.dev/v1",
    "kind": "Cluster",
    "metadata": {"name": "demo"},
    "spec": {
        "tls": {},
        "listeners": [
            {"name": "open", "port": 9094, "tls": True, "certificate": FROM_ISSUER},
            {
                "name": "passwords",
                "port": 9095,
                "tls": True,
                "authentication": {"type": "scram-sha-512"},
                "certificate": FROM_ISSUER,
            },
            {"name": "ports", "port": 9096, "tls": True, "type": "nodeport", "certificate": FROM_ISSUER},
        ],
        "pools": [{"name": "main", "nodes": 1, "storage": {"size": "1Gi"}}],
    },
}
ISSUERS: list[Document] = [
    {
        "apiVersion": "cert-manager.io/v1",
        "kind": "Issuer",
        "metadata": {"name": "itself"},
        "spec": {"selfSigned": {}},
    },
    {
        "apiVersion": "cert-manager.io/v1",
        "kind": "Certificate",
        "metadata": {"name": "house"},
        "spec": {
            "isCA": True,
            "commonName": "house",
            "secretName": "house",
            "privateKey": {"algorithm": "ECDSA", "size": 256},
            "issuerRef": {"name": "itself"},
        },
    },
    {
        "apiVersion": "cert-manager.io/v1",
        "kind": "Issuer",
        "metadata": {"name": "house"},
        "spec": {"ca": {"secretName": "house"}},
    },
]

SHOWN = """
import socket, ssl, sys
trust = ssl.create_default_context(cafile="/house/ca.crt")
with trust.wrap_socket(socket.create_connection((sys.argv[1], int(sys.argv[2]))), server_hostname=sys.argv[1]) as door:
    print(ssl.DER_cert_to_PEM_cert(door.getpeercert(binary_form=True)))
"""
"""Prints the certificate at a host and port, if that is by the issuer and for that name."""

HOLDS_ON = """
import os, socket, ssl, struct, sys, time
trust = ssl.create_default_context(cafile="/house/ca.crt")
door = trust.wrap_socket(socket.create_connection((sys.argv[1], int(sys.argv[2]))), server_hostname=sys.argv[1])
answers = door.makefile("rb")
number = 0
while not os.path.exists("/tmp/stop"):
    number += 1
    door.sendall(struct.pack(">ihhih", 10, 18, 0, number, -1))
    size, answered = struct.unpack(">ii", answers.read(8))
    assert answered == number, (answered, number)
    answers.read(size - 4)
    time.sleep(0.5)
print("answered", number)
"""
"""Asks for ApiVersions over one connection until it is stopped."""


@pytest.fixture(scope="module")
def cert_manager(operator: Any, launch: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """cert-manager as the cluster has it; else that of OTTLA_E2E_CERT_MANAGER, which leaves nothing behind."""
    kubectl = operator.system.kubectl
    if DEFINITION in kubectl("get", "customresourcedefinitions", "-o", "name"):
        yield
        return
    if "OTTLA_E2E_CERT_MANAGER" not in os.environ:
        pytest.skip("needs cert-manager in the cluster, or OTTLA_E2E_CERT_MANAGER=$(tests/e2e/build_cert_manager)")
    folder = Path(os.environ["OTTLA_E2E_CERT_MANAGER"])
    kubectl("apply", "--server-side", "-f", str(folder / "crds.yaml"))
    process = None
    try:
        kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", str(folder / "crds.yaml"))
        process = launch(
            [
                *(str(folder / "controller"), f"--kubeconfig={os.environ['KUBECONFIG']}", "--leader-elect=false"),
                *(f"--controllers={','.join(CONTROLLERS)}", "--metrics-listen-address=127.0.0.1:0"),
            ],
            tmp_path_factory.mktemp("cert-manager") / "controller.log",
        )
        yield
    finally:
        if process is not None:
            process.terminate()
            process.wait(30)
        kubectl("delete", "--timeout=60s", "-f", str(folder / "crds.yaml"))


class Issued:
    """A cluster with certificates of an issuer, in the module's namespace."""

    def __init__(self, namespace: Any) -> None:
        self.namespace = namespace

    def made(self, listener: str) -> str:
        """Return the certificate that cert-manager has issued for a listener; empty while there is none."""
        if f"secret/demo-listener-{listener}" not in self.namespace.names("secrets"):
            return ""
        return self.namespace.secret(f"demo-listener-{listener}").get("tls.crt", "")

    def address(self, listener: str) -> tuple[str, str]:
        listeners = self.namespace.get("cluster.ottla.dev", "demo")["status"]["listeners"]
        found = next(it["bootstrapServers"] for it in listeners if it["name"] == listener)
        host, _, port = found.partition(",")[0].rpartition(":")
        return host, port

    def shown(self, listener: str) -> str:
        """Return the certificate that clients get which trust the issuer only."""
        said: str = self.namespace.kubectl("exec", "stranger", "--", "python", "-c", SHOWN, *self.address(listener))
        return said.strip()

    def start_stranger(self, pod: str, script: str) -> None:
        """Start a pod that knows the issuer's certificate and nothing else, and runs ``script`` against a listener."""
        only_trust = {"secretName": "house", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
        command = ("python", "-c", script, *self.address("open"))
        self.namespace.start_pod(pod, *command, mount=("/house", {"secret": only_trust}))
        self.namespace.wait_ready(f"pod/{pod}")

    def renew(self, listener: str) -> None:
        """Request a new certificate from cert-manager, as its own command does: by a condition."""
        name = f"demo-listener-{listener}"
        conditions = self.namespace.get("certificate", name)["status"]["conditions"]
        condition = {
            "type": "Issuing",
            "status": "True",
            "reason": "ManuallyTriggered",
            "message": "a test asks for it",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        patch = json.dumps({"status": {"conditions": [*conditions, condition]}})
        self.namespace.kubectl("patch", "certificate", name, "--subresource=status", "--type=merge", "-p", patch)


def _is_new(old: str, made: str) -> bool:
    return bool(made) and old not in made


@pytest.fixture(scope="module")
def issued(cert_manager: None, namespace: Any) -> Issued:
    namespace.apply(*ISSUERS)
    namespace.wait_ready("issuer/house")
    namespace.apply(CLUSTER)
    namespace.declare("Topic", "ledger", partitions=1, replicationFactor=1)
    namespace.declare("User", "alice", authentication={"type": "scram-sha-512"})
    namespace.wait_ready("cluster.ottla.dev/demo", "topic.ottla.dev/ledger", "user.ottla.dev/alice")
    found = Issued(namespace)
    found.start_stranger("stranger", "import signal; signal.pause()")
    return found


@pytest.mark.parametrize("listener", ["open", "passwords", "ports"])
def test_clients_that_trust_the_issuer_get_its_certificate(issued: Issued, listener: str) -> None:
    """Also by the address of the Kubernetes node, which was not known when the first certificate was requested."""
    shown = issued.shown(listener)

    assert shown in issued.made(listener)
    said = issued.namespace.get("cluster.ottla.dev", "demo")["status"]["certificates"]
    not_after = next(it["notAfter"] for it in said if it["name"] == f"listener-{listener}")
    assert not_after == f"{x509.load_pem_x509_certificate(shown.encode()).not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}"


def test_users_secret_trusts_the_issuer_and_authenticates(issued: Issued) -> None:
    issued.namespace.start_bound(
        "greets", "alice", "echo alice-was-here | ottla produce ledger && ottla consume ledger -O :end"
    )

    assert "alice-was-here" in issued.namespace.finish("greets")
    assert issued.namespace.secret("alice")["ca.crt"].strip() == issued.namespace.secret("house")["ca.crt"].strip()


def test_new_certificates_disturb_no_client(issued: Issued) -> None:
    """One is renewed, the other one's Secret is lost: cert-manager issues both again."""
    before = {listener: issued.shown(listener) for listener in ("open", "passwords")}
    lives = issued.namespace.lives()
    counting = "i=0; while [ ! -e /tmp/stop ]; do echo renewing-$i; i=$((i+1)); sleep 0.02; done"
    issued.start_stranger("holds-on", HOLDS_ON)
    issued.namespace.start_bound("writes-on", "alice", f"{counting} | ottla produce ledger")
    issued.namespace.wait_ready("pod/writes-on")

    issued.renew("open")
    issued.namespace.kubectl("delete", "secret", "demo-listener-passwords")
    issued.namespace.eventually(lambda: all(_is_new(old, issued.made(it)) for it, old in before.items()), "made anew")
    issued.namespace.eventually(
        lambda: all(issued.shown(it) in issued.made(it) for it in before), "shown to clients", RENEWAL_S
    )

    assert re.search(r"^answered \d+$", issued.namespace.stop("holds-on").strip()), (
        "one connection from before to after"
    )
    issued.namespace.stop("writes-on")
    issued.namespace.start_bound("reads-it-all", "alice", "ottla consume ledger -O :end")
    records = issued.namespace.finish("reads-it-all").split()
    numbers = [int(it.rpartition("-")[2]) for it in records if it.startswith("renewing-")]
    assert numbers == list(range(len(numbers))), "each record, once"
    assert numbers
    assert issued.namespace.condition("cluster.ottla.dev", "demo")["status"] == "True"
    assert issued.namespace.lives() == lives, "no pod was restarted for a certificate"


def test_certificate_goes_with_its_listener(issued: Issued) -> None:
    passwords = CLUSTER["spec"]["listeners"][1]
    issued.namespace.change("cluster.ottla.dev", "demo", {"spec": {"listeners": [passwords]}})

    gone = "certificate.cert-manager.io/demo-listener-open"
    issued.namespace.eventually(lambda: gone not in issued.namespace.names("certificates"), "it is deleted")

    assert "certificate.cert-manager.io/demo-listener-passwords" in issued.namespace.names("certificates")
    issued.namespace.wait_ready("cluster.ottla.dev/demo")
    assert issued.shown("passwords") in issued.made("passwords")
