"""The certificate of a User: kept while it is current, and issued again by an authority that nodes trust."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ottla_operator.model import certificates
from ottla_operator.model.certificates import Leaf
from ottla_operator.model.client_access import ClientAccess
from ottla_operator.model.cluster_tls import Authority
from ottla_operator.model.conditions import Waiting
from ottla_operator.model.secret import Secret
from ottla_operator.model.timestamps import instant
from ottla_operator.model.user import User
from ottla_operator.model.user_secret import access_secret
from ottla_operator.planning.user.certificate import user_certificate

ACCESS = ClientAccess(bootstrap_servers="a:1", security_protocol="SSL")


@pytest.fixture
def world(new_world: Callable[..., Any]) -> Any:
    made = new_world(users=[])
    made.start(nodes=1)
    return made


@pytest.fixture
def bob(user_manifest: Callable[..., Any]) -> User:
    return User.parse(user_manifest(name="bob", type="tls"))


def issued(world: Any, user: User, found: Secret | None = None, now: str = "2026-01-01T00:00:00Z") -> Leaf | Waiting:
    return user_certificate(
        user,
        found,
        clients_ca=world.secrets.get("demo-clients-ca"),
        nodes=world.secrets.get("demo-nodes"),
        wanted=Authority(overlap_s=0),
        now=now,
        issuer=world.issuer,
    )


def stored(user: User, leaf: Leaf | Waiting) -> Secret:
    assert isinstance(leaf, Leaf)
    return access_secret(user, ACCESS, None, leaf)


def test_certificate_has_the_users_principal(world: Any, bob: User) -> None:
    leaf = issued(world, bob)

    assert isinstance(leaf, Leaf)
    assert certificates.facts(leaf.certificate).subject == "CN=bob"
    assert f"User:{certificates.facts(leaf.certificate).subject}" == bob.principal
    assert certificates.facts(leaf.certificate).not_after == instant("2027-01-01T00:00:00Z")
    assert certificates.is_issued_by(leaf.certificate, world.state("clients").present.certificate)


def test_current_certificate_is_kept(world: Any, bob: User) -> None:
    leaf = issued(world, bob)

    assert issued(world, bob, stored(bob, leaf), now="2026-12-01T00:00:00Z") == leaf


@pytest.mark.parametrize("case", ["revision", "time", "damaged", "foreign key"])
def test_outdated_certificate_is_replaced(world: Any, bob: User, case: str) -> None:
    leaf = issued(world, bob)
    secret, user, now = stored(bob, leaf), bob, "2026-01-02T00:00:00Z"
    if case == "revision":
        user = replace(bob, rotation="2")
    elif case == "time":
        now = "2026-12-03T00:00:00Z"
    elif case == "damaged":
        secret = replace(secret, entries={**secret.entries, "user.crt": "x"})
    else:
        secret = replace(secret, entries={**secret.entries, "user.key": world.state("clients").present.key})

    found = issued(world, user, secret, now)

    assert isinstance(found, Leaf)
    assert found != leaf


def test_new_authority_signs_as_soon_as_it_does_for_the_cluster(world: Any, bob: User) -> None:
    leaf = issued(world, bob)
    secret = stored(bob, leaf)
    world.asks(clients_ca=Authority(rotation="2", overlap_s=0))
    world.operate()
    assert issued(world, bob, secret) == leaf

    world.settle()

    assert issued(world, bob, secret) != leaf


def test_authority_that_nodes_do_not_trust_signs_nothing(world: Any, bob: User, new_world: Callable[..., Any]) -> None:
    other = new_world(users=[])
    other.start(nodes=1)
    world.secrets["demo-clients-ca"] = other.secrets["demo-clients-ca"]

    found = issued(world, bob)

    assert isinstance(found, Waiting)
    assert found.message == "nodes do not trust the authority in Secret demo-clients-ca yet"


def test_missing_authority_is_waited_for(world: Any, bob: User) -> None:
    del world.secrets["demo-clients-ca"]

    found = issued(world, bob)

    assert isinstance(found, Waiting)
    assert found.message == "Cluster demo has no authority yet that signs certificates of clients"
