"""The operator is killed right before each write of a Secret, while certificates are renewed or authorities replaced.

`test_rotation` has every order of events in a small model; this test has the steps of everything that renews
certificates, as the reconciliation of a Cluster executes them. The next operator continues, perhaps only to its first
write, if it is killed repeatedly. All peers verify each other all the time, and no more keys are created than without
kills.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

import pytest
from kills import KilledError

from ottla_operator.controllers.cluster.certificates import CertificateKeeper, CertificateResult, keep_certificates
from ottla_operator.model.certificates import CertificateIssuer, facts
from ottla_operator.model.cluster_secrets import NODE_PEM
from ottla_operator.model.cluster_tls import Authority
from ottla_operator.model.document import Document
from ottla_operator.model.manifest import Metadata
from ottla_operator.model.nodes import DesiredCluster
from ottla_operator.model.secret import Secret
from ottla_operator.planning.certificates.authorities import state_of
from ottla_operator.ports.host import Host
from ottla_operator.ports.nodes import NodeState, ObservedNode
from ottla_operator.ports.observed_cluster import ObservedCluster
from ottla_operator.ports.secret_store import SecretStore

Worlds = Callable[..., Any]
ROUNDS_MAX = 30
AUTHORITIES = ("cluster", "clients")
LOOKS = 3
"""How often nodes get new certificates while an authority is replaced."""


@dataclass
class Operator:
    """Reconciles the certificates of a model; its only state are the Secrets. Implements the store and the host."""

    world: Any
    written: list[Secret] = field(default_factory=list)
    kill_at: int | None = None
    """The number of the write before which the process is killed."""
    is_always_killed: bool = False
    """Whether each process is killed before its second write."""

    def fork(self) -> "Operator":
        """Return a copy, in a copy of the model."""
        return Operator(self.world.copy(), list(self.written))

    def one_pass(self) -> CertificateResult | None:
        """Return the result for the certificates; None if the process was killed, which happens once."""
        world = self.world
        if self.is_always_killed:
            self.kill_at = len(self.written) + 1
        nodes = {
            f"node-{number}": ObservedNode(
                name=f"node-{number}", state=NodeState.READY, certificate=facts(node.leaf.certificate).fingerprint
            )
            for number, node in enumerate(world.nodes)
        }
        keeper = CertificateKeeper(
            secret_store=cast(SecretStore, self),
            now=world.now.strftime("%Y-%m-%dT%H:%M:%SZ"),
            users=self._users,
            user_secrets=lambda _: cast(SecretStore, self),
        )
        desired, seen = DesiredCluster(cluster=world.cluster, nodes=()), ObservedCluster(outdated=(), nodes=nodes)
        try:
            return asyncio.run(keep_certificates(desired, seen, cast(Host, self), keeper, dry_run=False))
        except KilledError:
            self.kill_at = None
            return None

    # --- the port to Secrets, as far as reconciliations need it

    async def read(self, name: str) -> Secret | None:
        found: Secret | None = self.world.secrets.get(name)
        return found

    async def write(self, secret: Secret, _: Metadata) -> None:
        if self.kill_at == len(self.written):
            raise KilledError
        self.world.write(secret)
        self.written.append(secret)

    async def _users(self) -> list[Document]:
        return [{"metadata": {"name": name}} for name in self.world.users]

    # --- the port to the host, as far as reconciliations need it

    def certificate_names(self, _: DesiredCluster) -> frozenset[str]:
        names: frozenset[str] = self.world.names
        return names

    def nodes_servers(self, _: DesiredCluster) -> str:
        return "localhost:9091"


def play(operator: Operator) -> Iterator[None]:
    """Let all act until nothing is left to do; yield before each reconciliation, and check after every event."""
    world = operator.world
    for _ in range(ROUNDS_MAX):
        yield
        kept = operator.one_pass()
        world.check()
        for number in range(len(world.nodes)):
            world.read(number)
            world.check()
        for user in world.users:
            world.refresh(user)
            world.check()
        if kept is not None and not kept.execution.done and kept.obstacle is None:
            return
        world.wait(61)
    pytest.fail(f"not settled after {ROUNDS_MAX} rounds: {kept}")


def killed_everywhere(operator: Operator) -> list[Operator]:
    """Play it to the end, once for each write before which it can be killed, and once with all; return those others."""
    others, always = [], operator.fork()
    always.is_always_killed = True
    for _ in play(operator):
        trial = operator.fork()
        trial.one_pass()
        for number in range(len(operator.written), len(trial.written)):
            other = operator.fork()
            other.kill_at = number
            for _ in play(other):
                pass
            assert other.kill_at is None, "the operator was not killed"
            others.append(other)
    for _ in play(always):
        pass
    return [always, *others]


def own(world: Any, **which: str) -> None:
    """Give the cluster the user's own authorities, by the names of their Secrets."""
    for name in which.values():
        root = CertificateIssuer().authority("mine", name, now=world.now, days=1000)
        world.secrets[name] = Secret(name=name, entries={"ca.crt": root.certificate, "ca.key": root.key or ""})
    world.asks(**{authority: Authority(secret_name=name, overlap_s=0) for authority, name in which.items()})


def passes(world: Any, days: int) -> None:
    world.now += timedelta(days=days)


ROTATED, SHORT = Authority(rotation="2", overlap_s=0), Authority(validity_days=100, overlap_s=0)
EVENTS = [
    pytest.param(lambda it: it.asks(cluster_ca=ROTATED), {"cluster"}, id="cluster-ca"),
    pytest.param(lambda it: it.asks(clients_ca=ROTATED), {"clients"}, id="clients-ca"),
    pytest.param(lambda it: it.asks(cluster_ca=ROTATED, clients_ca=ROTATED), {"cluster", "clients"}, id="both"),
    pytest.param(lambda it: own(it, cluster_ca="mine"), {"cluster"}, id="own-cluster-ca"),
    pytest.param(lambda it: own(it, clients_ca="mine"), {"clients"}, id="own-clients-ca"),
    pytest.param(lambda it: passes(it, 336), set(), id="certificates-end-soon"),
    pytest.param(lambda it: setattr(it, "names", it.names | {"another"}), set(), id="another-name"),
]


def assert_done_once(operator: Operator, changed: set[str], before: dict[str, str]) -> None:
    """Assert that the authorities in ``changed`` were replaced, each once, and that nothing waits."""
    for which in AUTHORITIES:
        state = operator.world.state(which)
        assert not state.is_changing
        assert (state.present.certificate != before[which]) == (which in changed)
        states = [state_of(it) for it in operator.written if it.name == f"demo-{which}-ca"]
        signed = {it.present.certificate for it in states if it is not None} | {before[which]}
        following = {it.following.certificate for it in states if it is not None and it.following is not None}
        assert len(signed | following) == 1 + (which in changed), "no other key was ever to sign"


@pytest.mark.parametrize(("happens", "changed"), EVENTS)
def test_certificates_are_renewed_after_any_kill(
    new_world: Worlds, happens: Callable[[Any], None], changed: set[str]
) -> None:
    world = new_world()
    world.start(nodes=2)
    before = {which: world.state(which).present.certificate for which in AUTHORITIES}
    operator = Operator(world)
    happens(world)

    others = killed_everywhere(operator)

    for it in (operator, *others):
        assert_done_once(it, changed, before)
        looks = sum(secret.name == "demo-nodes" for secret in it.written)
        assert 1 <= looks <= max(1, LOOKS * len(changed)), "no fresh certificate for a kill"
        assert it.world.secrets["demo-nodes"].entries[NODE_PEM].endswith(it.world.nodes[0].leaf.certificate)


def test_expiring_authorities_are_replaced_once_after_any_kill(new_world: Worlds) -> None:
    world = new_world()
    world.asks(cluster_ca=SHORT, clients_ca=SHORT)
    world.start(nodes=2)
    before = {which: world.state(which).present.certificate for which in AUTHORITIES}
    passes(world, 71)

    operator = Operator(world)
    for it in (*killed_everywhere(operator), operator):
        assert_done_once(it, {"cluster", "clients"}, before)


def test_first_certificates_are_created_after_any_kill(new_world: Worlds) -> None:
    operator = Operator(new_world())
    for it in (*killed_everywhere(operator), operator):
        assert Counter(secret.name for secret in it.written) == Counter(
            ["demo-cluster-ca", "demo-clients-ca", "demo-nodes", "demo-operator"]
        )
