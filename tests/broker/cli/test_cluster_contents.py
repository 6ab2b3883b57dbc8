"""What `ottla export` reads: requests of bounded size, all or nothing, and reassignments as they will end."""

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.cli.cluster_contents import TOPICS_PER_REQUEST, read_principals, read_topics
from ottla.client.admin_security import QuotaEntity
from ottla.client.results import ConfigEntry, PartitionDescription, Reassignment, TopicDescription
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition
from ottla.wire.acl_codes import Acl, Operation, PatternType, PermissionType, ResourceType

READ = Acl(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:bob", "*", Operation.READ, PermissionType.ALLOW)


def topic(name: str, replicas: Sequence[int] = (1,)) -> TopicDescription:
    partition = PartitionDescription(partition=0, leader=1, leader_epoch=0, replicas=tuple(replicas), isr=(1,))
    return TopicDescription(name=name, topic_id="id", is_internal=False, partitions=(partition,))


class FakeAdmin:
    """The calls of an AdminClient, with ``fails``: an error by call."""

    def __init__(self, **fails: ErrorCode) -> None:
        self.fails = fails
        self.requests: list[int] = []
        self.deleted: set[str] = set()
        self.moving: dict[TopicPartition, Reassignment] = {}
        self.super_users: str | None = "User:root; User:CN=a"

    def _do(self, call: str) -> None:
        if call in self.fails:
            raise KafkaError(self.fails[call], "said")

    async def list_partition_reassignments(self) -> dict[TopicPartition, Reassignment]:
        self._do("list_partition_reassignments")
        return self.moving

    async def describe_topic_configs(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        self._do("describe_topic_configs")
        self.requests.append(len(names))
        return {name: {} for name in names if name not in self.deleted}

    async def describe_acls(self) -> list[Acl]:
        self._do("describe_acls")
        return [READ]

    async def describe_scram(self) -> dict[str, dict[int, int]]:
        self._do("describe_scram")
        return {"alice": {2: 4096}}

    async def describe_client_quotas(self) -> dict[QuotaEntity, dict[str, float]]:
        self._do("describe_client_quotas")
        limit = {"producer_byte_rate": 1.0}
        entities = [
            ("bob", None, None),
            ("carol", None, None),
            ("bob", "x", None),
            ("", None, None),
            (None, None, "ip"),
        ]
        return {QuotaEntity(user=user, client_id=client, ip=ip): limit for user, client, ip in entities}

    async def describe_cluster(self) -> Any:
        return SimpleNamespace(brokers=[SimpleNamespace(node_id=7)])

    async def describe_configs(self, _: object, name: str) -> list[ConfigEntry]:
        self._do("describe_configs")
        assert name == "7"
        return [ConfigEntry(name="super.users", value=self.super_users, source="STATIC_BROKER_CONFIG")]


def topics_of(admin: Any, described: Sequence[TopicDescription]) -> Any:
    return asyncio.run(read_topics(admin, described))


def principals_of(admin: Any) -> Any:
    return asyncio.run(read_principals(admin))


def test_requests_for_configs_are_of_bounded_size() -> None:
    admin = FakeAdmin()

    found = topics_of(admin, [topic(f"t{number}") for number in range(2 * TOPICS_PER_REQUEST + 1)])

    assert admin.requests == [TOPICS_PER_REQUEST, TOPICS_PER_REQUEST, 1]
    assert [it.name for it in found[-2:]] == ["t499", "t500"]


def test_topic_that_was_deleted_meanwhile_is_absent() -> None:
    admin = FakeAdmin()
    admin.deleted = {"b"}

    assert [it.name for it in topics_of(admin, [topic("a"), topic("b"), topic("c")])] == ["a", "c"]


def test_replicas_are_those_after_a_reassignment() -> None:
    admin = FakeAdmin()
    admin.moving = {TopicPartition("a", 0): Reassignment(replicas=(1, 2, 3), adding=(2, 3), removing=(1,))}

    found = topics_of(admin, [topic("a", (1, 2, 3)), topic("b", (1,))])

    assert [it.replicas for it in found] == [(2,), (1,)]


def test_empty_list_of_topics_for_lack_of_rights_is_an_error() -> None:
    assert topics_of(FakeAdmin(), []) == []
    with pytest.raises(KafkaError, match="lacks the right to Describe on the cluster"):
        topics_of(FakeAdmin(list_partition_reassignments=ErrorCode.CLUSTER_AUTHORIZATION_FAILED), [])


def test_principals_are_those_with_a_password_entries_or_limits() -> None:
    found = principals_of(FakeAdmin())

    assert [(it.principal, len(it.acls), dict(it.scram), dict(it.quotas)) for it in found.users] == [
        ("User:alice", 0, {2: 4096}, {}),
        ("User:bob", 1, {}, {"producer_byte_rate": 1.0}),
        ("User:carol", 0, {}, {"producer_byte_rate": 1.0}),
    ]
    assert found.super_users == {"User:root", "User:CN=a"}
    assert set(found.other_quotas) == {
        QuotaEntity(user="bob", client_id="x"),
        QuotaEntity(user=""),
        QuotaEntity(ip="ip"),
    }


def test_super_users_that_brokers_hide_are_unknown() -> None:
    admin = FakeAdmin()
    admin.super_users = None

    assert principals_of(admin).super_users == frozenset()


def test_brokers_without_an_authorizer_have_no_entries() -> None:
    found = principals_of(FakeAdmin(describe_acls=ErrorCode.SECURITY_DISABLED))

    assert not found.has_authorizer
    assert [it.principal for it in found.users if it.acls] == []


@pytest.mark.parametrize(
    ("call", "right"),
    [
        ("list_partition_reassignments", "Describe on the cluster"),
        ("describe_topic_configs", "DescribeConfigs on every topic"),
        ("describe_acls", "Describe on the cluster"),
        ("describe_scram", "Describe on the cluster"),
        ("describe_client_quotas", "DescribeConfigs on the cluster"),
        ("describe_configs", "DescribeConfigs on the cluster"),
    ],
)
def test_missing_right_is_named(call: str, right: str) -> None:
    is_of_topics = call in ("list_partition_reassignments", "describe_topic_configs")
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED if "topic" in call else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    admin = FakeAdmin(**{call: code})
    read: Callable[[], Any] = lambda: topics_of(admin, [topic("a")]) if is_of_topics else principals_of(admin)  # noqa: E731

    with pytest.raises(KafkaError) as raised:
        read()

    assert raised.value.code is code
    assert raised.value.message == f"nothing is exported, because this user lacks the right to {right}: said"


def test_other_errors_stay_as_they_are() -> None:
    with pytest.raises(KafkaError, match=r"^NOT_CONTROLLER: said$"):
        principals_of(FakeAdmin(describe_scram=ErrorCode.NOT_CONTROLLER))
