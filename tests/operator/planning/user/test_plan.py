"""The planner of Users: from the present and the desired state to few steps; both sides of each edge."""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given as any_of
from hypothesis import settings
from hypothesis import strategies as st

from ottla.sasl.scram import ScramMechanism, salted_password
from ottla.wire.acl_codes import Acl, Operation, PatternType, PermissionType, ResourceType
from ottla_operator.model.client_access import ClientAccess
from ottla_operator.model.conditions import Rejected, Waiting
from ottla_operator.model.manifest import ObjectKey
from ottla_operator.model.secret import Secret
from ottla_operator.model.user import User
from ottla_operator.model.user_secret import access_secret, credential_of
from ottla_operator.planning.plan import Plan
from ottla_operator.planning.steps.secret import DeleteSecret, WriteSecret
from ottla_operator.planning.steps.user import AlterQuotas, AlterScram, CreateAcls, DeleteAcls
from ottla_operator.planning.user.plan import (
    PASSWORD_SIZE,
    ObservedUser,
    plan_user,
    plan_user_deletion,
    release_without_brokers,
    reserved_principal,
)
from ottla_operator.ports.user_admin import UserDescription

Document = dict[str, Any]
Builder = Callable[..., Document]

ACCESS = ClientAccess(bootstrap_servers="demo:9092")
NOW = "2026-01-01T00:00:00Z"
SHA_256, SHA_512 = ScramMechanism
READ = Acl(ResourceType.TOPIC, "flights", PatternType.LITERAL, "User:alice", "*", Operation.READ, PermissionType.ALLOW)
WRITE = READ._replace(operation=Operation.WRITE)


def observed(
    secret: Secret | None = None,
    scram: Mapping[int, int] | None = None,
    acls: frozenset[Acl] | None = frozenset(),
    quotas: Mapping[str, float] | None = None,
    password: str | None = None,
) -> ObservedUser:
    description = UserDescription(acls=acls, scram=scram or {}, quotas=quotas or {})
    return ObservedUser(description=description, secret=secret, given_password=password)


def plan(user: User, seen: ObservedUser, *, now: str = NOW, seed: int = 1, **options: Any) -> Plan:
    return plan_user(user, seen, ACCESS, draw=random.Random(seed).randrange, now=now, **options)


def after(steps: Plan, seen: ObservedUser) -> ObservedUser:
    """Return the state after ``steps``."""
    known = seen.description
    secret, scram, acls, quotas = seen.secret, dict(known.scram), set(known.acls or ()), dict(known.quotas)
    for step in steps.steps:
        match step:
            case WriteSecret(written, _):
                secret = written
            case DeleteSecret():
                secret = None
            case AlterScram(_, upserts, deletions):
                scram |= {it.mechanism: it.iterations for it in upserts}
                scram = {key: value for key, value in scram.items() if key not in deletions}
            case CreateAcls(_, given):
                acls |= set(given)
            case DeleteAcls(_, taken):
                acls -= set(taken)
            case AlterQuotas(_, limits):
                quotas = {key: limit for key, limit in {**quotas, **limits}.items() if limit is not None}
    description = UserDescription(acls=frozenset(acls) if known.acls is not None else None, scram=scram, quotas=quotas)
    return replace(seen, description=description, secret=secret)


def settled(user: User, seen: ObservedUser | None = None, **options: Any) -> ObservedUser:
    start = seen or observed()
    return after(plan(user, start, **options), start)


def kinds(made: Plan) -> list[str]:
    return [type(step).__name__ for step in made.steps]


def password(seen: ObservedUser) -> str:
    credential = credential_of(seen.secret)
    assert credential is not None
    return credential.password


@pytest.fixture
def alice(user_manifest: Builder) -> User:
    return User.parse(user_manifest(quotas={"producerByteRate": 1000}))


def rotated(user_manifest: Builder, revision: str, overlap_s: int = 0) -> User:
    rotation = {"revision": revision, "overlapSeconds": overlap_s}
    return User.parse(user_manifest(authentication={"rotation": rotation}))


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


# --- rotation


def test_new_revision_makes_another_password_at_once(user_manifest: Builder) -> None:
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


# --- passwords from elsewhere


@pytest.fixture
def given(user_manifest: Builder) -> User:
    reference = {"valueFrom": {"secretKeyRef": {"name": "mine", "key": "pw"}}}
    return User.parse(user_manifest(authentication={"password": reference}))


def test_given_password_is_the_password(given: User) -> None:
    assert password(settled(given, observed(password="open sesame"))) == "open sesame"


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


# --- users without a password


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


def test_the_same_draw_gives_the_same_secret(alice: User) -> None:
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
