"""Permissions by Kafka's rules: a denial outweighs, some operations imply others, resources without entries."""

from dataclasses import replace

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.acls import acl_record
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.features import FeaturesImage
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.metadata.metadata_version import LATEST_METADATA_VERSION, METADATA_VERSION
from ottla.security.authorizer import CACHED_RESULTS_MAX, AclAuthorizer, AllowEveryone
from ottla.types import Uuid
from ottla.wire.acl_codes import Acl, Operation, PatternType, PermissionType, ResourceType
from ottla.wire.messages.metadata_log import RemoveAccessControlEntryRecord

IMAGE = replace(EMPTY_IMAGE, features=FeaturesImage({METADATA_VERSION: LATEST_METADATA_VERSION}))
ALICE, HOST = "User:alice", "10.0.0.1"


def entry(
    permission: str = "ALLOW",
    operation: str = "READ",
    name: str = "orders",
    pattern: str = "LITERAL",
    principal: str = ALICE,
    host: str = "*",
    resource_type: ResourceType = ResourceType.TOPIC,
) -> Acl:
    return Acl(
        resource_type, name, PatternType[pattern], principal, host, Operation[operation], PermissionType[permission]
    )


class PublishedAcls:
    """An authorizer and the image that was published to it."""

    def __init__(self, authorizer: AclAuthorizer, *acls: Acl, image: MetadataImage = IMAGE) -> None:
        self.authorizer = authorizer
        self.image = image
        self.count = 0
        self.add(*acls)

    def add(self, *acls: Acl) -> list[Uuid]:
        delta, ids = MetadataDelta(self.image), []
        for acl in acls:
            self.count += 1
            ids.append(Uuid(self.count.to_bytes(16, "big")))
            delta.replay(acl_record(ids[-1], acl).message)
        self._publish(delta)
        return ids

    def remove(self, *ids: Uuid) -> None:
        delta = MetadataDelta(self.image)
        for acl_id in ids:
            delta.replay(RemoveAccessControlEntryRecord(id=acl_id))
        self._publish(delta)

    def _publish(self, delta: MetadataDelta) -> None:
        self.image = delta.apply(self.image.provenance)
        self.authorizer.publish(delta, self.image)

    def may(self, operation: str, name: str = "orders", *, principal: str = ALICE, host: str = HOST) -> bool:
        return self.authorizer.authorize(principal, host, Operation[operation], ResourceType.TOPIC, name)


def having(*acls: Acl, allow_if_no_acl_found: bool = False) -> PublishedAcls:
    authorizer = AclAuthorizer(super_users=["User:admin"], allow_if_no_acl_found=allow_if_no_acl_found)
    return PublishedAcls(authorizer, *acls)


@pytest.mark.parametrize(
    ("acls", "operation", "is_allowed"),
    [
        pytest.param([], "READ", False, id="no-entries"),
        pytest.param([entry()], "READ", True, id="allowed"),
        pytest.param([entry()], "WRITE", False, id="another-operation"),
        pytest.param([entry(operation="ALL")], "WRITE", True, id="all"),
        pytest.param([entry(), entry("DENY")], "READ", False, id="denied-and-allowed"),
        pytest.param([entry(), entry("DENY", "ALL")], "READ", False, id="all-denied"),
        pytest.param([entry(), entry("DENY", "WRITE")], "READ", True, id="another-operation-denied"),
        pytest.param([entry(name="*")], "READ", True, id="every-resource"),
        pytest.param([entry(), entry("DENY", name="*")], "READ", False, id="every-resource-denied"),
        pytest.param([entry(name="ord", pattern="PREFIXED")], "READ", True, id="prefix"),
        pytest.param([entry(name="orders", pattern="PREFIXED")], "READ", True, id="prefix-of-the-same-length"),
        pytest.param([entry(name="orders2", pattern="PREFIXED")], "READ", False, id="prefix-that-is-longer"),
        pytest.param([entry(name="*", pattern="PREFIXED")], "READ", False, id="a-star-is-no-prefix"),
        pytest.param([entry(), entry("DENY", name="o", pattern="PREFIXED")], "READ", False, id="prefix-denied"),
        pytest.param([entry(principal="User:*")], "READ", True, id="all-principals"),
        pytest.param([entry(principal="User:bob")], "READ", False, id="another-principal"),
        pytest.param([entry(), entry("DENY", principal="User:*")], "READ", False, id="all-principals-denied"),
        pytest.param([entry(host=HOST)], "READ", True, id="from-its-host"),
        pytest.param([entry(host="10.0.0.2")], "READ", False, id="from-another-host"),
        pytest.param([entry(resource_type=ResourceType.GROUP)], "READ", False, id="another-kind-of-resource"),
    ],
)
def test_matching_entries_allow_or_deny(acls: list[Acl], operation: str, is_allowed: bool) -> None:
    assert having(*acls).may(operation) is is_allowed


@pytest.mark.parametrize("operation", ["READ", "WRITE", "DELETE", "ALTER", "DESCRIBE", "ALL"])
def test_describe_is_implied_by_other_operations(operation: str) -> None:
    assert having(entry(operation=operation)).may("DESCRIBE")


@pytest.mark.parametrize("operation", ["CREATE", "ALTER_CONFIGS", "DESCRIBE_CONFIGS", "CLUSTER_ACTION"])
def test_describe_is_not_implied_by_unrelated_operations(operation: str) -> None:
    assert not having(entry(operation=operation)).may("DESCRIBE")


def test_describe_configs_is_implied_by_alter_configs_only() -> None:
    assert having(entry(operation="ALTER_CONFIGS")).may("DESCRIBE_CONFIGS")
    assert not having(entry(operation="ALTER")).may("DESCRIBE_CONFIGS")


def test_denial_implies_no_other_denial() -> None:
    changed = having(entry("DENY", "READ"), entry("ALLOW", "DESCRIBE"))

    assert changed.may("DESCRIBE")
    assert not changed.may("READ")


def test_super_users_are_always_authorized() -> None:
    changed = having(entry("DENY", "ALL", name="*", principal="User:*"))

    assert changed.may("READ", principal="User:admin")
    assert not changed.may("READ", principal="User:adminx")


def test_resources_without_entries_are_open_if_configured() -> None:
    changed = having(entry(principal="User:bob"), allow_if_no_acl_found=True)

    assert changed.may("WRITE", "other")
    assert not changed.may("READ", "orders")


@pytest.mark.parametrize("allow_if_no_acl_found", [True, False])
def test_only_super_users_are_authorized_before_the_metadata_is_loaded(allow_if_no_acl_found: bool) -> None:
    """As StandardAuthorizerData.authorize: AuthorizerNotReadyException until the initial load is complete."""
    authorizer = AclAuthorizer(super_users=["User:admin"], allow_if_no_acl_found=allow_if_no_acl_found)
    quorum_alone = PublishedAcls(authorizer, image=EMPTY_IMAGE)

    with pytest.raises(KafkaError) as rejected:
        quorum_alone.may("READ")
    assert rejected.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    with pytest.raises(KafkaError, match="retry"):
        may_write_to_any_topic(authorizer)
    assert quorum_alone.may("READ", principal="User:admin")
    assert may_write_to_any_topic(authorizer, "User:admin")

    loaded = PublishedAcls(authorizer, entry("DENY"))
    assert not loaded.may("READ")
    assert loaded.may("READ", "other") is allow_if_no_acl_found
    assert may_write_to_any_topic(authorizer) is allow_if_no_acl_found


def may_write_to_any_topic(authorizer: AclAuthorizer, principal: str = ALICE) -> bool:
    return authorizer.authorize_by_resource_type(principal, HOST, Operation.WRITE, ResourceType.TOPIC)


def test_result_by_resource_type_is_cached_until_entries_change() -> None:
    changed = having(entry(operation="WRITE"))
    resources = changed.authorizer._resources[ResourceType.TOPIC]
    assert may_write_to_any_topic(changed.authorizer)

    changed.authorizer._resources[ResourceType.TOPIC] = None  # type: ignore[assignment]
    assert may_write_to_any_topic(changed.authorizer), "the entries are not evaluated again"

    changed.authorizer._resources[ResourceType.TOPIC] = resources
    ids = changed.add(entry("DENY", "ALL"))
    assert not may_write_to_any_topic(changed.authorizer)
    changed.remove(*ids)
    assert may_write_to_any_topic(changed.authorizer)


def test_cached_result_is_evicted_when_entries_change() -> None:
    changed = having(entry())
    assert changed.may("READ")

    ids = changed.add(entry("DENY"))
    assert not changed.may("READ")

    changed.remove(*ids)
    assert changed.may("READ")


@pytest.mark.parametrize(
    ("name_size", "count", "cached"),
    [
        pytest.param(10, CACHED_RESULTS_MAX, CACHED_RESULTS_MAX, id="at-the-bound"),
        pytest.param(10, CACHED_RESULTS_MAX + 1, 1, id="one-above-the-bound"),
        pytest.param(32_768, 128, 128, id="as-long-as-they-may-be"),
        pytest.param(32_768, 129, 1, id="one-more-of-these"),
    ],
)
def test_cache_of_results_is_bounded(name_size: int, count: int, cached: int) -> None:
    authorizer = having(entry()).authorizer

    for number in range(count):
        authorizer.authorize(ALICE, HOST, Operation.READ, ResourceType.TOPIC, f"{number:0{name_size}}")

    assert len(authorizer._cache) == cached


def test_removed_prefix_no_longer_matches() -> None:
    changed = having()
    first, second = changed.add(entry(name="ord", pattern="PREFIXED"), entry(name="ord", pattern="PREFIXED"))

    changed.remove(first)
    assert changed.may("READ")
    changed.remove(second)
    assert not changed.may("READ")


@pytest.mark.parametrize(
    ("acls", "is_allowed"),
    [
        pytest.param([], False, id="no-entries"),
        pytest.param([entry(operation="WRITE")], True, id="one-topic"),
        pytest.param([entry(operation="READ")], False, id="another-operation"),
        pytest.param([entry(operation="WRITE"), entry("DENY", "WRITE")], False, id="the-one-topic-denied"),
        pytest.param([entry(operation="WRITE"), entry("DENY", "WRITE", "o", "PREFIXED")], False, id="prefix-denied"),
        pytest.param([entry(operation="WRITE"), entry("DENY", "WRITE", "*")], False, id="everything-denied"),
        pytest.param([entry(operation="WRITE", name="*"), entry("DENY", "WRITE")], True, id="all-but-one"),
        pytest.param(
            [entry(operation="WRITE", name="o", pattern="PREFIXED"), entry("DENY", "WRITE", "orders", "PREFIXED")],
            True,
            id="longer-prefix-denied",
        ),
        pytest.param([entry(operation="WRITE", host="10.0.0.2")], False, id="from-another-host"),
    ],
)
def test_one_allowed_resource_authorizes_by_type(acls: list[Acl], is_allowed: bool) -> None:
    authorizer = having(*acls).authorizer

    assert authorizer.authorize_by_resource_type(ALICE, HOST, Operation.WRITE, ResourceType.TOPIC) is is_allowed


def test_without_an_authorizer_every_operation_is_allowed() -> None:
    no_authorizer = AllowEveryone()

    assert no_authorizer.authorize(ALICE, HOST, Operation.ALTER, ResourceType.CLUSTER, "kafka-cluster")
    assert no_authorizer.authorize_by_resource_type(ALICE, HOST, Operation.WRITE, ResourceType.TOPIC)
