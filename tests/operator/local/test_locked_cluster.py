"""A local cluster with TLS and its Users: effects of the next `ottla up` or `ottla apply` on both.

That includes a host that was off until its certificates, or their authorities, had expired.
"""

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ottla.client.admin import AdminClient
from ottla.client.security import ClientSecurity
from ottla.config.properties import parse_properties
from ottla_operator import local
from ottla_operator.adapters.local.host import LocalHost
from ottla_operator.adapters.local.secret_store import LocalSecrets
from ottla_operator.adapters.local.state_directory import StateDirectory
from ottla_operator.controllers.cluster.certificates import CertificateKeeper, keep_certificates
from ottla_operator.local import ExitCode
from ottla_operator.local.manifests import desired_by_user
from ottla_operator.model.certificates import facts
from ottla_operator.model.document import Document
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.timestamps import instant
from ottla_operator.ports.observed_cluster import ObservedCluster

Builder = Callable[..., Any]

pytestmark = pytest.mark.timeout(180)
TIMEOUT_S = 60
USERS = {"alice": "scram-sha-512", "bob": "tls"}
SECRETS = ["demo-cluster-ca", "demo-clients-ca", "demo-nodes", "demo-operator"]


@pytest.fixture
def state_dir(
    tmp_path: Path, cluster_manifest: Builder, user_manifest: Builder, free_ports: Callable[..., int]
) -> Iterator[Path]:
    """Return the state directory of a cluster with Users that was started and stopped."""
    listeners = [
        {"name": name, "port": 9094 + index, "tls": True, "authentication": {"type": kind}}
        for index, (name, kind) in enumerate([("passwords", "scram-sha-512"), ("certs", "tls")])
    ]
    document = cluster_manifest(spec={"tls": {}, "listeners": listeners, "authorization": {}})
    document["metadata"]["annotations"] = {"ottla.dev/local-port": str(free_ports())}
    users = [user_manifest(name=name, type=kind) for name, kind in USERS.items()]
    outcomes = local.apply([document, *users], state_dir=tmp_path, timeout_s=TIMEOUT_S)
    assert [it.exit_code for it in outcomes] == [ExitCode.OK] * 3, outcomes
    local.down(state_dir=tmp_path)
    yield tmp_path
    local.down(state_dir=tmp_path)


def age(state_dir: Path, days: int) -> None:
    """Replace all Secrets of the cluster by those that it would have had so long ago."""
    directory = StateDirectory(state_dir)
    store, host = LocalSecrets(directory), LocalHost(directory)
    past = (datetime.now(UTC) - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")

    async def no_users() -> list[Document]:
        return []

    async def write() -> None:
        for name in SECRETS:
            await store.delete(name)
        desired = await host.desired(Cluster.parse(directory.objects("Cluster")[0]))
        keeper = CertificateKeeper(secret_store=store, now=past, users=no_users, user_secrets=lambda _: store)
        await keep_certificates(desired, ObservedCluster(outdated=(), nodes={}), host, keeper, dry_run=False)

    asyncio.run(write())
    assert facts(entry(state_dir, "demo-nodes", "node.pem").partition("KEY-----\n")[2]).not_before < instant(past)


def entry(state_dir: Path, secret: str, name: str) -> str:
    return (state_dir / "secrets" / secret / name).read_text(encoding="utf-8")


async def can_connect(state_dir: Path, user: str) -> bool:
    properties = parse_properties(entry(state_dir, user, "client.properties"))
    security = ClientSecurity.from_properties(properties)
    async with AdminClient(properties["bootstrap.servers"], security=security, request_timeout_s=10) as client:
        return bool((await client.describe_cluster()).brokers)


@pytest.mark.parametrize("days", [400, 2_000], ids=["certificates", "authorities"])
def test_cluster_and_users_are_as_before(state_dir: Path, days: int) -> None:
    age(state_dir, days)

    outcome = local.up(state_dir=state_dir, timeout_s=TIMEOUT_S)

    assert outcome.exit_code == ExitCode.OK, outcome
    for user in USERS:
        assert entry(state_dir, user, "ca.crt") == entry(state_dir, "demo-nodes", "cluster-ca.crt")
        assert asyncio.run(can_connect(state_dir, user))
    for document in StateDirectory(state_dir).objects("User"):
        (ready,) = [it for it in document["status"]["conditions"] if it["type"] == "Ready"]
        assert (ready["status"], ready["reason"]) == ("True", "AsSpecified"), ready


def test_certificate_of_a_user_is_renewed_though_the_cluster_needs_nothing(state_dir: Path) -> None:
    asyncio.run(LocalSecrets(StateDirectory(state_dir)).delete("bob"))

    outcome = local.up(state_dir=state_dir, timeout_s=TIMEOUT_S)

    assert outcome.exit_code == ExitCode.OK, outcome
    assert asyncio.run(can_connect(state_dir, "bob"))


def test_users_follow_the_listeners_of_the_cluster(state_dir: Path) -> None:
    document = desired_by_user(StateDirectory(state_dir).objects("Cluster")[0])
    document["spec"]["listeners"].reverse()

    (outcome,) = local.apply([document], state_dir=state_dir, timeout_s=TIMEOUT_S)

    assert outcome.exit_code == ExitCode.OK, outcome
    for user in USERS:
        assert asyncio.run(can_connect(state_dir, user))
