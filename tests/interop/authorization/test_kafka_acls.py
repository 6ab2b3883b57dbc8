"""kafka-acls, librdkafka and kafka-python on entries: their output and results are the same as with JVM Kafka."""

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaAdminClient
from kafka.admin import ACL, ACLFilter, ACLOperation, ACLPermissionType, ACLResourcePatternType, ResourcePattern
from kafka.admin import ResourceType as PythonResourceType
from permission_server import PASSWORDS

logging.getLogger("kafka").setLevel(logging.ERROR)

PATIENCE_S = 60

CONVERSATIONS = {
    "topic": [
        "--add --allow-principal User:alice --operation Read --operation Write --topic orders",
        "--add --deny-principal User:bob --deny-host 10.0.0.9 --operation All --topic orders",
        "--list",
        "--list --topic orders --principal User:alice",
        "--remove --allow-principal User:alice --operation Write --topic orders --force",
        "--list --topic orders",
        "--remove --topic orders --force",
        "--list",
    ],
    "prefixes": [
        "--add --allow-principal User:alice --operation Read --topic app. --resource-pattern-type prefixed",
        "--add --allow-principal User:* --operation Describe --topic *",
        "--add --allow-principal User:alice --operation Alter --topic app.orders",
        "--list --topic app.orders --resource-pattern-type match",
        "--list --topic app.orders",
        "--list --topic app.orders --resource-pattern-type any",
        "--list --topic app. --resource-pattern-type prefixed",
        "--remove --topic app.orders --resource-pattern-type match --force",
        "--list",
    ],
    "producer": [
        "--add --allow-principal User:alice --producer --topic orders --idempotent --transactional-id payments",
        "--list",
        "--remove --allow-principal User:alice --producer --topic orders --transactional-id payments --force",
        "--list",
    ],
    "consumer": [
        "--add --allow-principal User:alice --allow-host 127.0.0.1 --consumer --topic orders --group readers",
        "--add --allow-principal User:alice --consumer --topic o --group r --resource-pattern-type prefixed",
        "--list --group readers",
        "--list --principal User:alice",
    ],
    "cluster": [
        "--add --allow-principal User:alice --operation AlterConfigs --operation IdempotentWrite --cluster",
        "--add --allow-principal User:alice --operation DescribeTokens --user-principal User:bob",
        "--add --allow-principal User:alice --operation Describe --delegation-token token",
        "--add --allow-principal User:alice --allow-host 0:0:0:0:0:0:0:1 --operation Create --cluster",
        "--list --cluster",
        "--list",
    ],
    "refused": [
        "--add --allow-principal alice --operation Read --topic orders",
        "--add --allow-principal User:alice --operation IdempotentWrite --topic orders",
        "--remove --allow-principal User:nobody --operation Read --topic orders --force",
        "--list",
    ],
}


@pytest.fixture
def clean(locked: dict[str, Any]) -> dict[str, Any]:
    """Return both nodes without any entry."""
    for node in locked.values():
        node.server.revoke()
    return locked


@pytest.fixture
def login(clean: dict[str, Any]) -> dict[str, str]:
    """Return librdkafka's settings for our node."""
    return {
        "bootstrap.servers": clean["ours"].bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "admin",
        "sasl.password": PASSWORDS["admin"],
    }


@pytest.fixture
def python_admin(clean: dict[str, Any]) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(
        bootstrap_servers=clean["ours"].bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username="admin",
        sasl_plain_password=PASSWORDS["admin"],
    )
    yield client
    client.close()


@pytest.mark.parametrize("conversation", CONVERSATIONS.values(), ids=CONVERSATIONS.keys())
def test_kafka_acls_prints_the_same_as_with_kafka(
    clean: dict[str, Any], kafka_tool: Callable[..., Any], conversation: list[str]
) -> None:
    def hold(kind: str) -> list[Any]:
        node = clean[kind]
        node.server.revoke()
        where = ("--bootstrap-server", node.bootstrap, "--command-config", str(node.client_properties))
        said = []
        for words in conversation:
            result = kafka_tool("kafka-acls", *where, *words.split(), code=None)
            # Clients of other tests may still warn of their nodes in the JVM that all tools share.
            complaints = [line for line in result.stderr.splitlines() if "clientId=console-" not in line]
            said.append((words, result.code, sorted(result.lines), complaints[:1]))
        return said

    ours = hold("ours")
    kafkas = hold("kafka")
    deadline = time.monotonic() + PATIENCE_S
    while ours != kafkas and time.monotonic() < deadline:
        # Kafka's brokers acknowledge entries that they do not list yet: longer so on a busy machine.
        kafkas = hold("kafka")

    assert ours == kafkas
    assert any(lines for _, _, lines, _ in ours)


def test_librdkafka_adds_finds_and_removes_entries(login: dict[str, str]) -> None:
    admin = AdminClient(login)
    by_name = AclBinding(
        ResourceType.TOPIC,
        "orders",
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    by_prefix = AclBinding(
        ResourceType.GROUP,
        "app.",
        ResourcePatternType.PREFIXED,
        "User:alice",
        "10.0.0.9",
        AclOperation.ALL,
        AclPermissionType.DENY,
    )
    of_alice = AclBindingFilter(
        ResourceType.ANY,
        None,
        ResourcePatternType.ANY,
        "User:alice",
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    for made in admin.create_acls([by_name, by_prefix]).values():
        made.result(timeout=30)

    found = admin.describe_acls(of_alice).result(timeout=30)
    removed = admin.delete_acls([of_alice])[of_alice].result(timeout=30)

    assert sorted(found) == sorted(removed) == sorted([by_name, by_prefix])
    assert admin.describe_acls(of_alice).result(timeout=30) == []


def test_kafka_python_adds_finds_and_removes_entries(python_admin: KafkaAdminClient) -> None:
    orders = ResourcePattern(PythonResourceType.TOPIC, "orders", ACLResourcePatternType.PREFIXED)
    entry = ACL("User:alice", "*", ACLOperation.WRITE, ACLPermissionType.ALLOW, orders)
    of_alice = ACLFilter("User:alice", None, ACLOperation.ANY, ACLPermissionType.ANY, orders)
    made = python_admin.create_acls([entry])

    found, _ = python_admin.describe_acls(of_alice)
    ((_, removed, _),) = python_admin.delete_acls([of_alice])

    assert made["succeeded"] == [entry]
    assert found == [entry]
    assert removed == [entry]
    assert python_admin.describe_acls(of_alice)[0] == []
