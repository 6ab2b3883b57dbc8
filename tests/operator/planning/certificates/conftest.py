"""A small model of certificates: nodes that read files late, clients with Secrets, an operator that is killed.

After each event every peer verifies every other, with the path validation of `cryptography`: any two nodes, every
client with its present Secret, and the operator.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache

import pytest
from cryptography import x509
from cryptography.x509 import verification

from ottla_operator.model.certificates import (
    CertificateIssuer,
    Leaf,
    LeafRequest,
    certificates,
    facts,
    is_issued_by,
    leaf_of,
)
from ottla_operator.model.cluster_secrets import CLIENTS_CA, CLUSTER_CA, NODE_PEM
from ottla_operator.model.cluster_tls import Authority, ClusterTls
from ottla_operator.model.manifest import Cluster, Metadata
from ottla_operator.model.secret import Secret, ownership
from ottla_operator.model.timestamps import instant
from ottla_operator.planning.certificates.authorities import STATE_ANNOTATION, AuthorityState, state_of
from ottla_operator.planning.certificates.observed import ObservedCertificates, former_host_addresses
from ottla_operator.planning.certificates.plan import CertificatePlan, plan_certificates
from ottla_operator.planning.certificates.users import UserSecret
from ottla_operator.planning.steps.certificate import LeaveUsersBehind, OrderCertificate, WithdrawCertificate

START = "2026-01-01T00:00:00Z"
TIME = "%Y-%m-%dT%H:%M:%SZ"
NAMES = frozenset({"localhost", "127.0.0.1"})
READ_WITHIN = timedelta(minutes=5)
"""How late a node may read its files, and a User may be reconciled."""
AT_ONCE = Authority(overlap_s=0)
"""A change of the overlap: it waits for no client to read a Secret."""
OWNER = Metadata(kind="Cluster", name="demo", uid="u")
CLUSTER = Cluster(
    metadata=OWNER,
    image=None,
    pools=(),
    config={},
    annotations={},
    known_cluster_id=None,
    tls=ClusterTls(cluster_ca=AT_ONCE, clients_ca=AT_ONCE),
)


@dataclass(frozen=True)
class Node:
    """The files that a node has read."""

    leaf: Leaf
    cluster_trust: str
    clients_trust: str

    @classmethod
    def reading(cls, secret: Secret) -> "Node":
        leaf = leaf_of(secret.entries[NODE_PEM])
        assert leaf is not None
        return cls(leaf, secret.entries[CLUSTER_CA], secret.entries[CLIENTS_CA])


@dataclass
class World:
    """Secrets, nodes and time. ``users`` have certificates and, like all clients, a trust store."""

    cluster: Cluster = CLUSTER
    names: frozenset[str] = NAMES
    secrets: dict[str, Secret] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    users: list[str] = field(default_factory=lambda: ["alice"])
    stuck: frozenset[str] = frozenset()
    """Users whose Secrets cannot be updated any more."""
    now: datetime = field(default_factory=lambda: instant(START))
    behind_since: dict[int, datetime] = field(default_factory=dict)
    outdated_since: dict[str, datetime] = field(default_factory=dict)
    listeners: dict[str, Secret | None] = field(default_factory=dict)
    ordered: frozenset[str] = frozenset()
    issuer: CertificateIssuer = field(default_factory=CertificateIssuer)
    left_behind: list[LeaveUsersBehind] = field(default_factory=list)
    """Reports of Users that were not waited for."""

    def copy(self) -> "World":
        return replace(
            self,
            secrets=dict(self.secrets),
            nodes=list(self.nodes),
            behind_since=dict(self.behind_since),
            outdated_since=dict(self.outdated_since),
        )

    # --- events

    def plan(self) -> CertificatePlan:
        names = self.cluster.tls.cluster_ca.secret_name, self.cluster.tls.clients_ca.secret_name  # type: ignore[union-attr]
        own_cluster, own_clients = (self.secrets.get(name or "") for name in names)
        observed = ObservedCertificates(
            cluster_ca=self.secrets.get("demo-cluster-ca"),
            clients_ca=self.secrets.get("demo-clients-ca"),
            nodes=self.secrets.get("demo-nodes"),
            operator=self.secrets.get("demo-operator"),
            own_cluster_ca=own_cluster,
            own_clients_ca=own_clients,
            listeners=self.listeners,
            ordered=self.ordered,
            users=tuple(filter(None, (UserSecret.parse(it, self.secrets.get(it)) for it in self.users))),
            shown={f"node-{i}": facts(node.leaf.certificate).fingerprint for i, node in enumerate(self.nodes)},
        )
        now = self.now.strftime(TIME)
        return plan_certificates(
            self.cluster,
            observed,
            names=self.names | former_host_addresses(self.cluster, observed.nodes, now),
            bootstrap_servers="localhost:9091",
            now=now,
            issuer=self.issuer,
        )

    def operate(self, steps_max: int = 100) -> CertificatePlan:
        """Reconcile, with a kill after so many writes."""
        plan = self.plan()
        for step in plan.steps[:steps_max]:
            if isinstance(step, OrderCertificate):
                self.ordered |= {step.order.name.removeprefix("demo-listener-")}
                continue
            if isinstance(step, WithdrawCertificate):
                self.ordered -= {step.name.removeprefix("demo-listener-")}
                continue
            if isinstance(step, LeaveUsersBehind):
                self.left_behind.append(step)
                continue
            self.write(step.secret)
        return plan

    def write(self, secret: Secret) -> None:
        """Store a Secret of the cluster; nodes read theirs some time later."""
        self.secrets[secret.name] = secret
        if secret.name == "demo-nodes":
            for number in range(len(self.nodes)):
                self.behind_since.setdefault(number, self.now)
        if secret.name in ("demo-nodes", "demo-clients-ca"):
            for user in self.users:
                self.outdated_since.setdefault(user, self.now)

    def read(self, number: int) -> None:
        """Let a node read its files."""
        if "demo-nodes" in self.secrets:
            self.nodes[number] = Node.reading(self.secrets["demo-nodes"])
            self.behind_since.pop(number, None)

    def refresh(self, user: str) -> None:
        """Reconcile a User, as `planning.user.plan` does."""
        self.outdated_since.pop(user, None)
        nodes, state = self.secrets.get("demo-nodes"), state_of(self.secrets.get("demo-clients-ca"))
        if nodes is None or state is None or state.present.key is None or user in self.stuck:
            return
        if state.present.certificate not in certificates(nodes.entries[CLIENTS_CA]):
            return
        found = self.secrets.get(user)
        certificate = "" if found is None else found.entries["user.crt"]
        key = "" if found is None else found.entries["user.key"]
        if not is_issued_by(certificate, state.present.certificate):
            leaf = self.issuer.leaf(state.present, LeafRequest(common_name=user), now=self.now, days=365)
            certificate, key = leaf.certificate, leaf.key
        entries = {"user.crt": certificate, "user.key": key, "ca.crt": nodes.entries[CLUSTER_CA]}
        mark = ownership(Metadata(kind="User", name=user))
        self.secrets[user] = Secret(name=user, entries=entries, annotations=mark)

    def wait(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)
        for number, since in list(self.behind_since.items()):
            if self.now - since > READ_WITHIN:
                self.read(number)
        for user, since in list(self.outdated_since.items()):
            if self.now - since > READ_WITHIN:
                self.refresh(user)

    def start(self, nodes: int) -> None:
        """Start the cluster, and a client."""
        self.operate()
        self.nodes = [Node.reading(self.secrets["demo-nodes"]) for _ in range(nodes)]
        for user in self.users:
            self.refresh(user)

    def settle(self, rounds: int = 60) -> CertificatePlan:
        """Let every node, user and the operator act until nothing is left to do; return the last plan."""
        for _ in range(rounds):
            plan = self.act()
            if not plan.steps and plan.obstacle is None:
                return plan
        raise AssertionError(f"not settled: {plan.steps} {plan.obstacle}")

    def act(self) -> CertificatePlan:
        """Let the operator, every node and every User act once, and a minute pass; return the plan."""
        plan = self.operate()
        self.check()
        for number in range(len(self.nodes)):
            self.read(number)
            self.check()
        for user in self.users:
            self.refresh(user)
            self.check()
        self.wait(61)
        return plan

    def asks(self, **tls: Authority) -> None:
        """Change the manifest: ``cluster_ca``, ``clients_ca``."""
        assert self.cluster.tls is not None
        self.cluster = replace(self.cluster, tls=replace(self.cluster.tls, **tls))

    # --- invariants

    def check(self) -> None:
        """Assert that every pair of peers that must connect can verify each other."""
        for one in self.nodes:
            for other in self.nodes:
                assert trusts(one.cluster_trust, other.leaf.certificate, self.now), "nodes do not trust each other"
            for name, client in self._clients():
                assert trusts(client["ca.crt"], one.leaf.certificate, self.now), f"{name} does not trust a node"
                assert trusts(one.clients_trust, client["user.crt"], self.now), f"a node does not trust {name}"
            operator = self.secrets.get("demo-operator")
            if operator is not None:
                assert trusts(operator.entries["ca.crt"], one.leaf.certificate, self.now), "operator: node"
                assert trusts(one.cluster_trust, operator.entries["operator.crt"], self.now), "node: operator"

    def _clients(self) -> Iterator[tuple[str, Mapping[str, str]]]:
        for name in self.users:
            if name in self.secrets and name not in self.stuck:
                yield name, self.secrets[name].entries

    def state(self, which: str) -> AuthorityState:
        found = state_of(self.secrets.get(f"demo-{which}-ca"))
        assert found is not None
        return found

    def canonical(self) -> tuple[object, ...]:
        """Return a key that distinguishes states of the model, independent of the bytes of keys."""
        numbers: dict[str, int] = {}

        def number(pem: str) -> int:
            return numbers.setdefault(pem, len(numbers))

        def bundle(pem: str) -> tuple[int, ...]:
            return tuple(number(it) for pem in certificates(pem) for it in (pem, _issuer_of(pem)))

        said: list[object] = []
        for name in sorted(self.secrets):
            secret = self.secrets[name]
            said.append(
                (name, *(bundle(text) for key, text in sorted(secret.entries.items()) if "properties" not in key))
            )
            state = json.loads(secret.annotations.get(STATE_ANNOTATION, "{}"))
            seen = state.pop("seenAt", None)
            # While Users are updated in time, how long they were waited for changes nothing that follows.
            state.pop("waitedAt", None)
            state.pop("waitedQuarters", None)
            said.append(str(state))
            said.append(min(int((self.now - instant(seen)).total_seconds()), 60) if seen else None)
        said += [(bundle(it.leaf.certificate), bundle(it.cluster_trust), bundle(it.clients_trust)) for it in self.nodes]
        return tuple(said)


def trusts(bundle: str, certificate: str, now: datetime) -> bool:
    """Tell whether a peer that trusts ``bundle`` accepts ``certificate`` now."""
    return _verifies(bundle, certificate, now.replace(hour=0, minute=0, second=0) + timedelta(days=1))


@cache
def _issuer_of(certificate: str) -> str:
    return x509.load_pem_x509_certificate(certificate.encode()).issuer.rfc4514_string()


@cache
def _verifies(bundle: str, certificate: str, now: datetime) -> bool:
    store = verification.Store([x509.load_pem_x509_certificate(it.encode()) for it in certificates(bundle)])
    policy = verification.ExtensionPolicy
    verifier = (
        verification.PolicyBuilder()
        .store(store)
        .time(now)
        .extension_policies(ca_policy=policy.webpki_defaults_ca(), ee_policy=policy.permit_all())
        .build_client_verifier()
    )
    try:
        verifier.verify(x509.load_pem_x509_certificate(certificate.encode()), [])
    except verification.VerificationError:
        return False
    return True


@pytest.fixture
def new_world() -> Callable[..., World]:
    """Return a function that creates a model from its fields."""
    return World
