"""Passwords of Users: rotation, overlaps, and passwords from Secrets of the user."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from planned_users import SHA_256, SHA_512, WRITE, after, kinds, observed, password, plan, rotated, settled

from ottla_operator.model.conditions import Rejected, Waiting
from ottla_operator.model.user import User
from ottla_operator.model.user_secret import CREDENTIAL_ANNOTATION
from ottla_operator.planning.plan import Plan
from ottla_operator.planning.steps.user import AlterScram

Document = dict[str, Any]
Builder = Callable[..., Document]


def test_new_revision_replaces_the_password_at_once(user_manifest: Builder) -> None:
    good = settled(rotated(user_manifest, "1"))
    user = rotated(user_manifest, "2")

    now = settled(user, good, seed=2)

    assert password(now) != password(good)
    assert list(now.description.scram) == [SHA_512]
    assert now.description.scram != good.description.scram
    assert plan(user, now, seed=3) == Plan()


def test_both_passwords_are_valid_during_the_overlap(user_manifest: Builder) -> None:
    before = settled(rotated(user_manifest, "1", 60))
    user = rotated(user_manifest, "2", 60)

    both = settled(user, before, seed=2)

    assert set(both.description.scram) == {SHA_256, SHA_512}
    assert both.description.scram[SHA_512] == before.description.scram[SHA_512]
    assert both.secret is not None
    assert both.secret.entries["saslMechanism"] == "SCRAM-SHA-256"
    assert plan(user, both, now="2026-01-01T00:00:59Z") == Plan()
    assert kinds(plan(user, both, now="2026-01-01T00:01:00Z")) == ["WriteSecret", "AlterScram"]
    last = settled(user, both, now="2026-01-01T00:01:00Z")
    assert set(last.description.scram) == {SHA_256}
    assert password(last) == password(both)
    assert plan(user, last, now="2026-01-01T00:01:00Z") == Plan()


@pytest.mark.parametrize("end", ["never", "9999", "2026-13-01T00:00:00Z", ""])
def test_overlap_whose_end_was_edited_is_over(user_manifest: Builder, end: str) -> None:
    user = rotated(user_manifest, "2", 60)
    both = settled(user, settled(rotated(user_manifest, "1", 60)), seed=2)
    assert both.secret is not None
    described = both.secret.annotations[CREDENTIAL_ANNOTATION].replace("2026-01-01T00:01:00Z", end)
    annotations = {**both.secret.annotations, CREDENTIAL_ANNOTATION: described}
    edited = replace(both, secret=replace(both.secret, annotations=annotations))

    assert kinds(plan(user, edited)) == ["WriteSecret", "AlterScram"]


def test_rotation_turns_back_to_the_first_mechanism(user_manifest: Builder) -> None:
    first = settled(rotated(user_manifest, "1", 60))
    second = settled(rotated(user_manifest, "2", 60), first, seed=2)
    third = settled(rotated(user_manifest, "3", 60), second, seed=3)

    assert third.secret is not None
    assert third.secret.entries["saslMechanism"] == "SCRAM-SHA-512"
    assert third.description.scram[SHA_256] == second.description.scram[SHA_256]
    assert third.description.scram[SHA_512] != second.description.scram[SHA_512]


def test_password_that_never_reached_brokers_gets_no_overlap(user_manifest: Builder) -> None:
    before = settled(rotated(user_manifest, "1", 60))
    lost = replace(before, description=replace(before.description, scram={}))

    assert set(settled(rotated(user_manifest, "2", 60), lost, seed=2).description.scram) == {SHA_512}


def test_previous_password_changed_elsewhere_is_deleted(user_manifest: Builder) -> None:
    user = rotated(user_manifest, "2", 60)
    both = settled(user, settled(rotated(user_manifest, "1", 60)), seed=2)
    changed = replace(both.description, scram={**both.description.scram, SHA_512: 4095})

    (step,) = plan(user, replace(both, description=changed)).steps

    assert isinstance(step, AlterScram)
    assert (step.upserts, step.deletions) == ((), (SHA_512,))


@pytest.fixture
def given(user_manifest: Builder) -> User:
    reference = {"valueFrom": {"secretKeyRef": {"name": "mine", "key": "pw"}}}
    return User.parse(user_manifest(authentication={"password": reference}))


def test_given_password_is_the_password(given: User) -> None:
    assert password(settled(given, observed(password="open sesame"))) == "open sesame"


@pytest.mark.parametrize(
    ("in_use", "kept"),
    [({1: 4096}, 1), ({2: 4096}, 2), ({1: 4096, 2: 4096}, 2), ({}, 2)],
    ids=["sha-256", "sha-512", "both", "new"],
)
def test_adopted_user_with_a_given_password_keeps_its_mechanism(given: User, in_use: dict[int, int], kept: int) -> None:
    good = settled(given, observed(scram=in_use, password="open sesame"))

    assert set(good.description.scram) == {kept}
    assert plan(given, good, seed=2) == Plan()


def test_user_whose_password_the_operator_creates_has_sha_512(user_manifest: Builder) -> None:
    good = settled(User.parse(user_manifest()), observed(scram={1: 4096}))

    assert set(good.description.scram) == {2}


def test_changed_given_password_is_adopted(given: User) -> None:
    good = settled(given, observed(password="one"))

    made = plan(given, replace(good, given_password="two"), seed=2)

    assert kinds(made) == ["WriteSecret", "AlterScram"]
    assert password(after(made, good)) == "two"


def test_missing_password_is_waited_for_and_delays_no_rule(given: User) -> None:
    seen = observed(acls=frozenset({WRITE}), scram={2: 4096})
    made = plan(given, seen)

    assert kinds(made) == ["CreateAcls", "DeleteAcls"]
    last = plan(given, after(made, seen))
    message = "there is no key pw of Secret mine, which is to hold the password of user alice"
    assert (last.steps, last.obstacle) == ((), Waiting("PasswordMissing", message))


@pytest.mark.parametrize("text", ["", "two\n", "a\x00b", "\udcff"], ids=["empty", "line-end", "nul", "not-utf-8"])
def test_unusable_password_is_rejected(given: User, text: str) -> None:
    seen = observed(password=text)
    made = plan(given, seen)

    assert kinds(made) == ["CreateAcls"]
    last = plan(given, after(made, seen))
    assert isinstance(last.obstacle, Rejected)
    assert (last.steps, last.obstacle.reason) == ((), "PasswordUnusable")


@pytest.mark.parametrize("kind", ["tls", "tls-external", "oauth"])
def test_user_without_a_password_has_a_secret_and_none_in_the_cluster(user_manifest: Builder, kind: str) -> None:
    user = User.parse(user_manifest(type=kind))

    made = plan(user, observed(scram={1: 4096}))

    assert kinds(made) == ["CreateAcls", "WriteSecret", "AlterScram"]
    good = after(made, observed(scram={1: 4096}))
    assert good.description.scram == {}
    assert good.secret is not None
    assert "password" not in good.secret.entries
    assert plan(user, good) == Plan()


# --- rejections
