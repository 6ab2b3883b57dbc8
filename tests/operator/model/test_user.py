"""User manifests as values: principals, entries and limits in Kafka's terms."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.wire.acl_codes import Acl, Operation, PatternType, PermissionType, ResourceType
from ottla_operator.model import schema
from ottla_operator.model.user import SecretKey, User

Document = dict[str, Any]
Builder = Callable[..., Document]


def parsed(manifest: Document) -> User:
    return User.parse(schema.admit(manifest))


@pytest.mark.parametrize(
    ("kind", "user_name", "principal"),
    [
        ("scram-sha-512", None, "User:alice"),
        ("scram-sha-512", "Alice B.", "User:Alice B."),
        ("oauth", "alice@example.com", "User:alice@example.com"),
        ("tls", None, "User:CN=alice"),
        ("tls", "O=x", "User:CN=O\\=x"),
        ("tls-external", None, "User:CN=alice"),
        ("tls-external", "CN=alice,O=Example", "User:CN=alice,O=Example"),
    ],
)
def test_principal_is_what_the_cluster_calls_the_user(
    user_manifest: Builder, kind: str, user_name: str | None, principal: str
) -> None:
    more = {} if user_name is None else {"userName": user_name}

    assert parsed(user_manifest(type=kind, **more)).principal == principal


def test_each_operation_of_a_rule_is_an_entry(user_manifest: Builder) -> None:
    rules = [
        {
            "resource": {"type": "topic", "name": "f", "patternType": "prefix"},
            "operations": ["Read", "DescribeConfigs"],
        },
        {"resource": {"type": "cluster"}, "operations": ["IdempotentWrite"], "type": "deny", "host": "10.0.0.1"},
        {"resource": {"type": "transactionalId", "name": "*"}, "operations": ["TwoPhaseCommit"]},
        {"resource": {"type": "group", "name": "g"}, "operations": ["All", "All"]},
    ]
    prefix, allow, alice = PatternType.PREFIXED, PermissionType.ALLOW, "User:alice"
    literal = PatternType.LITERAL

    assert parsed(user_manifest(rules=rules)).acls == {
        Acl(ResourceType.TOPIC, "f", prefix, alice, "*", Operation.READ, allow),
        Acl(ResourceType.TOPIC, "f", prefix, alice, "*", Operation.DESCRIBE_CONFIGS, allow),
        Acl(
            ResourceType.CLUSTER,
            "kafka-cluster",
            literal,
            alice,
            "10.0.0.1",
            Operation.IDEMPOTENT_WRITE,
            PermissionType.DENY,
        ),
        Acl(ResourceType.TRANSACTIONAL_ID, "*", literal, alice, "*", Operation.TWO_PHASE_COMMIT, allow),
        Acl(ResourceType.GROUP, "g", literal, alice, "*", Operation.ALL, allow),
    }


def test_limits_have_kafkas_keys(user_manifest: Builder) -> None:
    quotas = {
        "producerByteRate": 1,
        "consumerByteRate": 2,
        "requestPercentage": 3,
        "controllerMutationRate": 0.5,
    }

    assert parsed(user_manifest(quotas=quotas)).quotas == {
        "producer_byte_rate": 1.0,
        "consumer_byte_rate": 2.0,
        "request_percentage": 3.0,
        "controller_mutation_rate": 0.5,
    }


def test_password_and_rotation_are_read(user_manifest: Builder) -> None:
    reference = {"valueFrom": {"secretKeyRef": {"name": "mine", "key": "pw"}}}
    user = parsed(user_manifest(authentication={"password": reference, "rotation": {"overlapSeconds": 5}}))

    assert (user.password_from, user.overlap_s, user.rotation) == (SecretKey("mine", "pw"), 5, "")
    assert str(user.password_from) == "key pw of Secret mine"


def test_smallest_user_may_nothing(user_manifest: Builder) -> None:
    manifest = user_manifest()
    del manifest["spec"]["authorization"]
    user = parsed(manifest)

    assert (user.acls, user.quotas, user.password_from, user.overlap_s) == (frozenset(), {}, None, 0)
