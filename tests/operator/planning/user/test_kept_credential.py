"""The Secret of a User follows the trust of nodes while no password or certificate can be chosen for it."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from planned_users import NOW, after, kinds, observed, password

from ottla_operator.model.certificates import CertificateIssuer, LeafRequest
from ottla_operator.model.client_access import ClientAccess
from ottla_operator.model.conditions import Rejected, Waiting
from ottla_operator.model.secret import Secret
from ottla_operator.model.timestamps import instant
from ottla_operator.model.user import User
from ottla_operator.planning.plan import Plan
from ottla_operator.planning.user.plan import ObservedUser, plan_user

Builder = Callable[..., dict[str, Any]]
OLD = ClientAccess(bootstrap_servers="demo:9092", security_protocol="SASL_SSL", ca_pem="OLD\n")
NEW = replace(OLD, ca_pem="OLD\nNEW\n")


@pytest.fixture
def given(user_manifest: Builder) -> User:
    reference = {"valueFrom": {"secretKeyRef": {"name": "mine", "key": "pw"}}}
    return User.parse(user_manifest(authentication={"password": reference}))


def plan(user: User, seen: ObservedUser, access: ClientAccess | Rejected, seed: int = 1) -> Plan:
    return plan_user(user, seen, access, draw=random.Random(seed).randrange, now=NOW)


@pytest.fixture
def good(given: User) -> ObservedUser:
    """The User as specified, before nodes trust the new authority."""
    start = observed(password="open sesame")
    return after(plan(given, start, OLD), start)


def entries(seen: ObservedUser) -> dict[str, str]:
    assert seen.secret is not None
    return dict(seen.secret.entries)


@pytest.mark.parametrize(
    ("text", "reason"), [(None, "PasswordMissing"), ("", "PasswordUnusable")], ids=["missing", "unusable"]
)
def test_trust_is_written_without_a_usable_password(
    given: User, good: ObservedUser, text: str | None, reason: str
) -> None:
    seen = replace(good, given_password=text)
    made = plan(given, seen, NEW)
    last = after(made, seen)

    assert kinds(made) == ["WriteSecret"]
    assert entries(last) == entries(after(plan(given, good, NEW), good)), "as with its password"
    assert password(last) == "open sesame"
    outcome = plan(given, last, NEW, seed=2)
    assert (outcome.steps, outcome.obstacle and outcome.obstacle.reason) == ((), reason)


def test_secret_without_its_password_is_not_created(given: User) -> None:
    made = plan(given, observed(), NEW)

    assert "WriteSecret" not in kinds(made), "pods that mount the Secret wait until it is complete"


def test_password_that_was_edited_meanwhile_is_replaced_when_the_reference_is_back(
    given: User, good: ObservedUser
) -> None:
    assert good.secret is not None
    edited = replace(good.secret, entries={**good.secret.entries, "password": "edited"})
    seen = replace(good, secret=edited, given_password=None)
    seen = after(plan(given, seen, NEW), seen)
    assert (entries(seen)["password"], entries(seen)["ca.crt"]) == ("edited", NEW.ca_pem)

    seen = replace(seen, given_password="edited")
    made = plan(given, seen, NEW, seed=2)

    assert kinds(made) == ["WriteSecret", "AlterScram"], "brokers have another password"


def test_unreadable_credential_stays_as_it_is(given: User, good: ObservedUser) -> None:
    assert good.secret is not None
    annotations = {**good.secret.annotations, "ottla.dev/credential": "{"}
    seen = replace(good, secret=replace(good.secret, annotations=annotations), given_password=None)

    last = after(plan(given, seen, NEW), seen)

    assert [entries(last)[it] for it in ("password", "saslMechanism", "sasl.jaas.config", "ca.crt")] == [
        *(entries(good)[it] for it in ("password", "saslMechanism", "sasl.jaas.config")),
        NEW.ca_pem,
    ]
    assert "sasl.mechanism=SCRAM-SHA-512" in entries(last)["client.properties"]
    assert plan(given, last, NEW).steps == ()


def test_certificate_stays_while_none_can_be_issued(user_manifest: Builder) -> None:
    bob, issuer = User.parse(user_manifest(type="tls")), CertificateIssuer()
    authority = issuer.authority("demo", "CA", now=instant(NOW), days=9)
    leaf = issuer.leaf(authority, LeafRequest(common_name="alice"), now=instant(NOW), days=9)
    access = replace(OLD, security_protocol="SSL")
    start = replace(observed(), certificate=leaf)
    seen = after(plan(bob, start, access), start)
    missing = Waiting("AuthorityMissing", "no authority")
    rotated = replace(bob, rotation="2")

    last = after(plan(rotated, replace(seen, certificate=missing), replace(access, ca_pem=NEW.ca_pem)), seen)

    assert entries(last)["ca.crt"] == NEW.ca_pem
    assert entries(last)["user.key"] == leaf.key
    assert "ssl.keystore.key=" in entries(last)["client.properties"]
    assert last.secret is not None
    assert last.secret.annotations["ottla.dev/certificate-revision"] == "", "revision 2 has no certificate yet"


@pytest.mark.parametrize("case", ["foreign", "no-listener"])
def test_secret_that_must_not_be_written_is_left_alone(given: User, good: ObservedUser, case: str) -> None:
    seen = replace(good, given_password=None)
    access: ClientAccess | Rejected = NEW
    if case == "foreign":
        seen = replace(seen, secret=Secret(name="alice", entries={"ca.crt": "OLD\n"}))
    else:
        access = Rejected("NoListener", "no listener")

    made = plan(given, seen, access)

    assert (kinds(made), made.obstacle is not None) == ([], True)


def test_present_trust_without_a_password_needs_nothing(given: User, good: ObservedUser) -> None:
    assert plan(given, replace(good, given_password=None), OLD).steps == ()
