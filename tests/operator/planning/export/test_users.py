"""Manifests of users: valid, and their adoption changes no credential, entry or limit."""

from dataclasses import replace
from typing import Any

import pytest
from planned_users import SHA_256, SHA_512, kinds, observed, plan

from ottla.wire.acl_codes import Acl, Operation, PatternType, PermissionType, ResourceType
from ottla_operator.model import schema
from ottla_operator.model.conditions import Waiting
from ottla_operator.model.user import User
from ottla_operator.planning.export.exported import Destination, Exported
from ottla_operator.planning.export.users import UserSource, export_users
from ottla_operator.planning.plan import Plan

DEMO = Destination(cluster="demo")


def acl(principal: str, operation: Operation = Operation.READ, **changes: Any) -> Acl:
    read = Acl(ResourceType.TOPIC, "t", PatternType.LITERAL, principal, "*", operation, PermissionType.ALLOW)
    return read._replace(**changes)


def source(principal: str = "User:bob", **fields: Any) -> UserSource:
    return UserSource(**{"principal": principal, "acls": frozenset({acl(principal)}), **fields})


def exported(user: UserSource, **options: Any) -> Exported:
    (found,) = export_users([user], DEMO, **options)
    return found


def adopted(found: Exported) -> User:
    assert found.document is not None
    return User.parse(schema.admit(found.document))


def test_user_with_a_password_refers_to_a_secret_that_is_not_there() -> None:
    found = exported(source(scram={SHA_512: 4096}, quotas={"producer_byte_rate": 1024.0}))

    assert found.document == DEMO.manifest(
        "User",
        "bob",
        {
            "authentication": {
                "type": "scram-sha-512",
                "password": {"valueFrom": {"secretKeyRef": {"name": "bob-password", "key": "password"}}},
            },
            "authorization": {"rules": [{"resource": {"type": "topic", "name": "t"}, "operations": ["Read"]}]},
            "quotas": {"producerByteRate": 1024},
        },
    )
    assert found.hints == (
        "its password belongs into the Secret bob-password, key password; until then its credential is not changed",
    )
    assert found.warnings == ()


@pytest.mark.parametrize("scram", [{SHA_512: 4096}, {SHA_256: 8192}, {SHA_256: 1, SHA_512: 2}])
def test_adoption_before_the_password_is_known_changes_nothing(scram: dict[int, int]) -> None:
    user = source(scram=scram, quotas={"consumer_byte_rate": 5.0})
    seen = observed(scram=user.scram, acls=user.acls, quotas=user.quotas)

    outcome = plan(adopted(exported(user)), seen)

    assert outcome.steps == ()
    assert isinstance(outcome.obstacle, Waiting)
    assert outcome.obstacle.reason == "PasswordMissing"


def test_mechanism_that_goes_with_the_password_is_mentioned() -> None:
    assert exported(source(scram={SHA_256: 1, SHA_512: 2})).hints[1] == (
        "it has both mechanisms; from then on only SCRAM-SHA-512, so that clients with SCRAM-SHA-256 cannot connect"
    )


@pytest.mark.parametrize(
    ("principal", "kind"),
    [
        pytest.param("User:CN=bob", "tls-external", id="common-name"),
        pytest.param("User:CN=bob,OU=a b,O=c\\,d", "tls-external", id="distinguished-name"),
        pytest.param("User:svc@REALM", "oauth", id="other"),
        pytest.param("User:ANONYMOUS", "oauth", id="anonymous"),
        pytest.param("User:y", "oauth", id="yaml"),
    ],
)
def test_adoption_of_a_user_without_a_password_writes_only_its_secret(principal: str, kind: str) -> None:
    user = source(principal, quotas={"controller_mutation_rate": 0.5, "request_percentage": 50.0})

    parsed = adopted(exported(user))

    assert (parsed.principal, parsed.authentication) == (principal, kind)
    assert kinds(plan(parsed, observed(acls=user.acls, quotas=user.quotas))) == ["WriteSecret"]


def test_password_of_a_name_like_a_certificates_is_a_password() -> None:
    parsed = adopted(exported(source("User:CN=bob", scram={SHA_512: 4096})))

    assert (parsed.principal, parsed.authentication) == ("User:CN=bob", "scram-sha-512")


def test_user_of_which_adoption_would_remove_something_is_paused_and_says_what() -> None:
    token = acl("User:bob", Operation.DESCRIBE, resource_type=ResourceType.DELEGATION_TOKEN)
    user = source(
        acls=frozenset({acl("User:bob"), token}), quotas={"producer_byte_rate": 0.5, "request_percentage": 1e9}
    )

    found = exported(user)

    assert adopted(found).is_paused
    assert [it.rpartition(": ")[2] for it in found.hints[1:]] == [
        "allow describe on delegation-token t",
        "quota producer_byte_rate=0.5",
        "quota request_percentage=1e+09",
    ]
    assert found.warnings == ("User:bob is paused here: its manifest cannot have 3 of its entries and limits",)


@pytest.mark.parametrize(
    ("principal", "reason"),
    [
        pytest.param("User:*", "it stands for all users", id="wildcard"),
        pytest.param("User:root", "it is a super user", id="super-user"),
        pytest.param("Group:admins", "it is no principal of the type User", id="type"),
        pytest.param("User:zoë", "spec.userName cannot have its name", id="not-ascii"),
        pytest.param("User: bob", "spec.userName cannot have its name", id="space"),
        pytest.param("User:", "spec.userName cannot have its name", id="empty"),
        pytest.param("User:User:bob", "spec.userName cannot have its name", id="twice"),
        pytest.param("User:" + "b" * 250, "spec.userName cannot have its name", id="long"),
        pytest.param("User:bob\n---", "spec.userName cannot have its name", id="line-break"),
    ],
)
def test_principal_that_no_user_can_have_is_named_with_its_entries(principal: str, reason: str) -> None:
    found = exported(source(principal, quotas={"producer_byte_rate": 1.0}), super_users={"User:root"})

    assert found.document is None
    assert found.warnings[0].startswith(f"{principal} has no manifest: {reason}")
    assert found.hints == ("allow read on topic t", "quota producer_byte_rate=1")


def test_secret_of_a_password_is_not_that_of_another_user() -> None:
    users = [source("User:bob", scram={2: 1}), source("User:bob-password", scram={2: 1})]

    found = [adopted(it) for it in export_users(users, DEMO)]

    assert [it.password_from.name for it in found if it.password_from] == ["bob-password-0", "bob-password-password"]
    taken = adopted(exported(users[0], taken={"bob-password"}))
    assert taken.password_from is not None
    assert taken.password_from.name == "bob-password-0"


def test_users_are_sorted_and_names_that_are_taken_get_a_digest() -> None:
    found = export_users([source("User:b"), source("User:a")], DEMO, taken={"b"})

    names = [it.document["metadata"]["name"] for it in found if it.document]
    assert names[0] == "a"
    assert names[1].startswith("b-")
    assert adopted(found[1]).principal == "User:b"


def test_cluster_without_an_authorizer_has_users_without_rules() -> None:
    user = source(acls=frozenset(), scram={2: 1})
    seen = observed(scram=user.scram, acls=None)

    assert "authorization" not in (exported(user).document or {})["spec"]
    assert plan(adopted(exported(user)), replace(seen, given_password=None)) == Plan(
        obstacle=Waiting(
            "PasswordMissing",
            "there is no key password of Secret bob-password, which is to hold the password of user bob",
        )
    )
