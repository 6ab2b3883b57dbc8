"""The planner of Users: from the present and the desired state to few steps; both sides of each edge."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given as any_of
from hypothesis import settings
from hypothesis import strategies as st
from planned_users import ACCESS, NOW, READ, SHA_256, SHA_512, WRITE, after, kinds, observed, password, plan, settled

from ottla.sasl.scram import salted_password
from ottla_operator.model.conditions import Rejected
from ottla_operator.model.manifest import ObjectKey
from ottla_operator.model.secret import Secret
from ottla_operator.model.user import User
from ottla_operator.model.user_secret import access_secret, credential_of
from ottla_operator.planning.plan import Plan
from ottla_operator.planning.steps.user import AlterQuotas, AlterScram, CreateAcls
from ottla_operator.planning.user.plan import (
    PASSWORD_SIZE,
    plan_user,
    plan_user_deletion,
    release_without_brokers,
    reserved_principal,
)

Document = dict[str, Any]
Builder = Callable[..., Document]


@pytest.fixture
def alice(user_manifest: Builder) -> User:
    return User.parse(user_manifest(quotas={"producerByteRate": 1000}))


def test_secret_of_a_new_user_is_written_before_brokers_get_its_password(alice: User) -> None:
    made = plan(alice, observed())

    assert kinds(made) == ["CreateAcls", "AlterQuotas", "WriteSecret", "AlterScram"]
    assert made.obstacle is None


def test_user_as_specified_needs_nothing(alice: User) -> None:
    assert plan(alice, settled(alice), seed=2) == Plan()


def test_brokers_get_what_the_secret_holds(alice: User) -> None:
    seen = observed()
    made = plan(alice, seen)
    (altered,) = [step for step in made.steps if isinstance(step, AlterScram)]
    ((secret,), known) = (altered.upserts, password(after(made, seen)))

    assert len(known) == PASSWORD_SIZE
    assert secret.salted_password == salted_password(SHA_512, known, secret.salt, secret.iterations)


@pytest.mark.parametrize(
    ("drift", "expected"),
    [
        pytest.param({"acls": frozenset()}, ["CreateAcls"], id="rule-lost"),
        pytest.param({"acls": frozenset({READ, WRITE})}, ["DeleteAcls"], id="rule-added"),
        pytest.param({"acls": frozenset({WRITE})}, ["CreateAcls", "DeleteAcls"], id="rule-changed"),
        pytest.param({"quotas": {}}, ["AlterQuotas"], id="limit-lost"),
        pytest.param({"quotas": {"producer_byte_rate": 999.0}}, ["AlterQuotas"], id="limit-changed"),
        pytest.param(
            {"quotas": {"producer_byte_rate": 1000.0, "consumer_byte_rate": 1.0}}, ["AlterQuotas"], id="limit-added"
        ),
        pytest.param({"scram": {}}, ["AlterScram"], id="password-lost"),
        pytest.param({"scram": {2: 4095}}, ["AlterScram"], id="password-changed"),
    ],
)
def test_drift_is_corrected(alice: User, drift: Document, expected: list[str]) -> None:
    good = settled(alice)
    seen = replace(good, description=replace(good.description, **drift))

    made = plan(alice, seen)

    assert kinds(made) == expected
    assert after(made, seen) == good


def test_password_of_another_mechanism_is_deleted(alice: User) -> None:
    good = settled(alice)
    more = replace(good.description, scram={**good.description.scram, SHA_256: 4096})

    (step,) = plan(alice, replace(good, description=more)).steps

    assert isinstance(step, AlterScram)
    assert (step.upserts, step.deletions) == ((), (SHA_256,))


def test_removed_limits_are_in_the_step(alice: User) -> None:
    good = settled(alice)
    more = replace(good.description, quotas={"producer_byte_rate": 1.0, "request_percentage": 5.0})

    (step,) = plan(alice, replace(good, description=more)).steps

    assert str(step) == "limits of user alice: producer_byte_rate 1000, no request_percentage"


def test_lost_secret_makes_another_password(alice: User) -> None:
    good = settled(alice)
    seen = replace(good, secret=None)

    made = plan(alice, seen, seed=2)

    assert kinds(made) == ["WriteSecret", "AlterScram"]
    assert password(after(made, seen)) != password(good)


@pytest.mark.parametrize("annotation", ["", "{", "[]", "{}", '{"mechanism": 5, "iterations": 1, "revision": ""}'])
def test_corrupt_secret_is_written_again(alice: User, annotation: str) -> None:
    good = settled(alice)
    assert good.secret is not None
    annotations = {**good.secret.annotations, "ottla.dev/credential": annotation}
    seen = replace(good, secret=replace(good.secret, annotations=annotations))

    made = plan(alice, seen, seed=2)

    assert kinds(made) == ["WriteSecret", "AlterScram"]
    assert plan(alice, after(made, seen), seed=3) == Plan()


def test_password_edited_in_the_secret_is_adopted(alice: User) -> None:
    good = settled(alice)
    assert good.secret is not None
    edited = replace(good.secret, entries={**good.secret.entries, "password": "open sesame"})
    seen = replace(good, secret=edited)

    made = plan(alice, seen, seed=2)

    assert kinds(made) == ["WriteSecret", "AlterScram"]
    assert password(after(made, seen)) == "open sesame"


def test_what_others_add_to_the_secret_stays(alice: User) -> None:
    good = settled(alice)
    assert good.secret is not None
    more = replace(
        good.secret, labels={**good.secret.labels, "x": "y"}, annotations={**good.secret.annotations, "a": "b"}
    )

    assert plan(alice, replace(good, secret=more)) == Plan()


def test_changed_template_and_changed_listener_write_the_secret_and_no_password(
    alice: User, user_manifest: Builder
) -> None:
    good = settled(alice)
    labelled = replace(alice, secret_labels={"team": "a"})
    moved = plan_user(alice, good, replace(ACCESS, bootstrap_servers="b:1"), draw=random.Random(1).randrange, now=NOW)

    assert kinds(plan(labelled, good)) == kinds(moved) == ["WriteSecret"]
    assert kinds(plan(alice, settled(labelled))) == ["WriteSecret"]


def test_rules_in_a_cluster_without_authorizer_are_rejected_and_nothing_is_done(alice: User) -> None:
    made = plan(alice, observed(acls=None))

    assert isinstance(made.obstacle, Rejected)
    assert made.obstacle.reason == "SecurityDisabled"
    assert "authorizer.class.name" in made.obstacle.message


def test_user_without_rules_needs_no_authorizer(user_manifest: Builder) -> None:
    made = plan(User.parse(user_manifest(rules=[])), observed(acls=None))

    assert made.obstacle is None
    assert kinds(made) == ["WriteSecret", "AlterScram"]


def test_younger_object_changes_nothing(alice: User) -> None:
    made = plan(alice, observed(acls=frozenset({WRITE})), claimed_by=ObjectKey("User", "kafka", "older"))

    assert isinstance(made.obstacle, Rejected)
    assert made.obstacle.reason == "UserClaimedElsewhere"


@pytest.mark.parametrize(
    ("spec", "principal"),
    [
        ({"userName": "*"}, "User:*"),
        ({"type": "oauth", "userName": "*"}, "User:*"),
        ({"userName": "admin"}, "User:admin"),
        ({"type": "tls", "userName": "node"}, "User:CN=node"),
    ],
)
def test_wildcard_and_super_users_are_reserved_principals(
    user_manifest: Builder, spec: Document, principal: str
) -> None:
    rejection = reserved_principal(User.parse(user_manifest(**spec)), {"User:admin", "User:CN=node"})

    assert rejection is not None
    assert rejection.reason == "PrincipalReserved"
    assert principal in rejection.message


@pytest.mark.parametrize(
    "spec", [{}, {"userName": "node"}, {"type": "tls", "userName": "admin"}, {"type": "tls", "userName": "*"}]
)
def test_other_principals_are_not_reserved(user_manifest: Builder, spec: Document) -> None:
    assert reserved_principal(User.parse(user_manifest(**spec)), {"User:admin", "User:CN=node"}) is None


def test_foreign_secret_is_left_alone(alice: User) -> None:
    foreign = Secret(name="alice", entries={"password": "x"})

    seen = observed(secret=foreign, acls=frozenset({READ, WRITE}))
    made = plan(alice, seen)

    assert kinds(made) == ["DeleteAcls", "AlterQuotas"], "revocations wait for nothing"
    last = plan(alice, after(made, seen))
    assert isinstance(last.obstacle, Rejected)
    assert (last.steps, last.obstacle.reason) == ((), "SecretTaken")
    assert plan_user_deletion(alice, observed(secret=foreign)) == Plan()


# --- deletion


def test_deletion_removes_everything(alice: User) -> None:
    good = settled(alice)

    made = plan_user_deletion(alice, good)

    assert kinds(made) == ["AlterScram", "DeleteAcls", "AlterQuotas", "DeleteSecret"]
    gone = after(made, good)
    assert gone == observed()
    assert plan_user_deletion(alice, gone) == Plan()


def test_entries_of_the_wildcard_principal_stay(user_manifest: Builder) -> None:
    wildcard = User.parse(user_manifest(userName="*"))
    seen = observed(acls=frozenset({READ._replace(principal="User:*")}))

    assert plan_user_deletion(wildcard, seen) == Plan()


def test_heir_keeps_what_the_user_has(alice: User) -> None:
    assert kinds(plan_user_deletion(alice, settled(alice), heir=ObjectKey("User", "", "b"))) == ["DeleteSecret"]


def test_object_whose_user_was_never_created_is_released(alice: User) -> None:
    assert release_without_brokers(alice) is not None
    assert release_without_brokers(replace(alice, known_principal="User:alice")) is None


# --- output of steps


def test_no_step_prints_a_secret(alice: User) -> None:
    seen = observed()
    made = plan(alice, seen)
    secret = password(after(made, seen))

    assert secret not in repr(made) + "".join(map(str, made.steps)) + repr(after(made, seen))
    assert [str(step) for step in made.steps] == [
        "give user alice: allow read on topic flights",
        "limits of user alice: producer_byte_rate 1000",
        "write secret alice",
        "password of user alice: set SCRAM-SHA-512",
    ]


def test_long_lists_of_rules_are_cut(user_manifest: Builder) -> None:
    rule = {
        "resource": {"type": "topic", "name": "f", "patternType": "prefix"},
        "operations": ["Read", "Write", "Create", "Delete"],
        "host": "10.0.0.1",
        "type": "deny",
    }
    made = plan(User.parse(user_manifest(rules=[rule])), observed())
    (step,) = [it for it in made.steps if isinstance(it, CreateAcls)]

    assert str(step).startswith("give user alice: deny read on topic f... from 10.0.0.1; deny write on")
    assert str(step).endswith(" and 1 more")


def test_same_random_values_give_the_same_secret(alice: User) -> None:
    first, second = settled(alice), settled(alice)

    assert first == second
    assert first.secret == access_secret(alice, ACCESS, credential_of(first.secret))


# --- every state, and every change


RULES = st.lists(
    st.fixed_dictionaries(
        {
            "resource": st.fixed_dictionaries(
                {"type": st.sampled_from(["topic", "group"]), "name": st.sampled_from("ab")},
                optional={"patternType": st.sampled_from(["literal", "prefix"])},
            ),
            "operations": st.lists(st.sampled_from(["Read", "Describe", "All"]), min_size=1, max_size=3),
        },
        optional={"type": st.sampled_from(["allow", "deny"]), "host": st.sampled_from(["*", "10.0.0.1"])},
    ),
    max_size=4,
)
ROTATIONS = st.fixed_dictionaries(
    {}, optional={"revision": st.sampled_from("123"), "overlapSeconds": st.sampled_from([0, 30, 90])}
)
SPECS = st.fixed_dictionaries(
    {
        "clusterRef": st.just({"name": "demo"}),
        "authentication": st.one_of(
            st.fixed_dictionaries({"type": st.just("scram-sha-512")}, optional={"rotation": ROTATIONS}),
            st.just({"type": "oauth"}),
        ),
    },
    optional={
        "authorization": st.fixed_dictionaries({"rules": RULES}),
        "quotas": st.dictionaries(st.sampled_from(["producerByteRate", "requestPercentage"]), st.integers(1, 9)),
        "secret": st.fixed_dictionaries({"labels": st.dictionaries(st.sampled_from("xy"), st.text("z", max_size=1))}),
    },
)
DRIFT = st.fixed_dictionaries(
    {},
    optional={
        "acls": st.frozensets(st.sampled_from([READ, WRITE, READ._replace(host="h")])),
        "scram": st.dictionaries(st.sampled_from([1, 2]), st.integers(4096, 4100)),
        "quotas": st.dictionaries(st.sampled_from(["producer_byte_rate", "x"]), st.floats(1, 9)),
    },
)


@settings(max_examples=30, deadline=None)
@any_of(
    changes=st.lists(st.tuples(SPECS, DRIFT, st.booleans(), st.integers(0, 100)), min_size=1, max_size=5),
    kills=st.lists(st.integers(0, 4), max_size=5),
)
def test_every_change_ends_as_asked_in_one_plan_and_stays_so(
    changes: list[tuple[Document, Document, bool, int]], kills: list[int]
) -> None:
    """Specs, drift, lost Secrets and time come in any order; a killed operator has a successor."""
    seen, minute, seeds = observed(), 0, iter(range(1_000))
    for spec, drift, is_lost, passes_s in changes:
        minute += passes_s
        now = f"2026-01-01T00:{minute // 60:02}:{minute % 60:02}Z"
        user = User.parse({"kind": "User", "metadata": {"name": "alice"}, "spec": spec})
        seen = replace(seen, description=replace(seen.description, **drift), secret=None if is_lost else seen.secret)
        for stop in kills:
            cut = plan(user, seen, now=now, seed=next(seeds))
            seen = after(Plan(cut.steps[:stop]), seen)
        made = plan(user, seen, now=now, seed=next(seeds))
        seen = after(made, seen)

        assert plan(user, seen, now=now, seed=next(seeds)) == Plan()
        assert seen.description.acls == user.acls
        assert seen.description.quotas == user.quotas
        credential = credential_of(seen.secret)
        assert (credential is not None) == user.has_password
        if credential is not None:
            assert seen.description.scram[credential.mechanism] == credential.iterations
            assert len(seen.description.scram) == 1 + bool(credential.previous_iterations)
        else:
            assert seen.description.scram == {}


def test_limits_are_printed_as_written() -> None:
    printed = str(AlterQuotas("alice", {"producer_byte_rate": 1_048_576.0, "request_percentage": 12.5, "x": None}))

    assert printed == "limits of user alice: producer_byte_rate 1048576, request_percentage 12.5, no x"
