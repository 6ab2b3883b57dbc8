"""Dynamic configuration: accepted and rejected changes, with Kafka's messages (recorded from Kafka 4.3.1)."""

from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.metadata.configs import EVERY_BROKER
from ottla.metadata.records import MetadataRecord
from ottla.wire.messages import metadata_log as log
from ottla.wire.messages.alter_configs import AlterableConfig as FullConfig
from ottla.wire.messages.alter_configs import AlterConfigsRequest
from ottla.wire.messages.alter_configs import AlterConfigsResource as FullResource
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def resource(kind: int, name: str, *configs: tuple[str, int, str | None]) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[AlterableConfig(name=key, config_operation=how, value=value) for key, how, value in configs],
    )


def alter(node: Any, *resources: AlterConfigsResource, validate_only: bool = False) -> list[tuple[int, str | None]]:
    response = node.ask(IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only))
    return [(each.error_code, each.error_message) for each in response.responses]


REJECTED = [
    (
        resource(TOPIC, "nope", ("retention.ms", SET, "1")),
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "The topic 'nope' does not exist.",
    ),
    (resource(TOPIC, "t", ("nope", SET, "1")), ErrorCode.INVALID_CONFIG, "Unknown topic config name: nope"),
    (
        resource(TOPIC, "t", ("retention.ms", SET, "x")),
        ErrorCode.INVALID_CONFIG,
        "Invalid value x for configuration retention.ms: Not a number of type LONG",
    ),
    (
        resource(TOPIC, "t", ("retention.ms", SET, None)),
        ErrorCode.INVALID_REQUEST,
        "Null value not supported for : retention.ms",
    ),
    (
        resource(TOPIC, "t", ("retention.ms", APPEND, "1")),
        ErrorCode.INVALID_CONFIG,
        "Can't APPEND to key retention.ms because its type is not LIST.",
    ),
    (
        resource(TOPIC, "t", ("retention.ms", SET, "5"), ("retention.ms", SET, "6")),
        ErrorCode.INVALID_REQUEST,
        "Error due to duplicate config keys",
    ),
    (
        resource(TOPIC, "", ("retention.ms", SET, "1")),
        ErrorCode.INVALID_REQUEST,
        "Default topic resources are not allowed.",
    ),
    (
        resource(BROKER, "1", ("min.insync.replicas", SET, "2")),
        ErrorCode.INVALID_CONFIG,
        "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
    ),
    (
        resource(BROKER, "", ("min.insync.replicas", DELETE, None)),
        ErrorCode.INVALID_CONFIG,
        "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
    ),
    (
        resource(BROKER, "1", ("num.partitions", SET, "2")),
        ErrorCode.INVALID_REQUEST,
        "Cannot update these configs dynamically: [num.partitions]",
    ),
    (
        resource(CLIENT_METRICS, "", ("interval.ms", SET, "1000")),
        ErrorCode.INVALID_REQUEST,
        "Subscription name can't be empty",
    ),
    (resource(GROUP, "g", ("zz", SET, "1")), ErrorCode.INVALID_CONFIG, "Unknown group config name: zz"),
    (resource(0, "g", ("zz", SET, "1")), ErrorCode.INVALID_REQUEST, "Unknown resource type 0"),
    (resource(99, "g", ("zz", SET, "1")), ErrorCode.INVALID_REQUEST, "Unknown resource type 99"),
]


@pytest.mark.parametrize(("wanted", "code", "message"), REJECTED)
def test_invalid_settings_are_rejected_as_by_kafka(
    node: Any, wanted: AlterConfigsResource, code: ErrorCode, message: str
) -> None:
    node.create_topic("t")
    before = node.image.configs

    assert alter(node, wanted) == [(code, message)]
    assert node.image.configs == before


def test_resource_named_twice_is_rejected_twice(node: Any) -> None:
    node.create_topic("t")
    twice = [resource(TOPIC, "t", ("retention.ms", SET, "5"))] * 2

    assert alter(node, *twice) == [(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")] * 2


def test_rejected_resource_does_not_affect_the_others(node: Any) -> None:
    node.create_topic("t")

    codes = alter(node, resource(TOPIC, "nope"), resource(TOPIC, "t", ("retention.ms", SET, "5")))

    assert [code for code, _ in codes] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE]
    assert node.image.configs.of_topic("t") == {"retention.ms": "5"}


def test_values_are_set_appended_subtracted_and_deleted(node: Any) -> None:
    node.create_topic("t")

    alter(node, resource(TOPIC, "t", ("retention.ms", SET, "5"), ("cleanup.policy", APPEND, "compact")))
    changed = node.image.configs.of_topic("t")
    alter(node, resource(TOPIC, "t", ("retention.ms", DELETE, None), ("cleanup.policy", SUBTRACT, "delete")))

    assert changed == {"retention.ms": "5", "cleanup.policy": "delete,compact"}
    assert node.image.configs.of_topic("t") == {"cleanup.policy": "compact"}


def test_unchanged_settings_write_no_records(node: Any) -> None:
    node.create_topic("t", retention_ms="5")
    request = IncrementalAlterConfigsRequest(resources=[resource(TOPIC, "t", ("retention.ms", SET, "5"))])

    assert node.records_of(request) == []


def test_validate_only_changes_nothing(node: Any) -> None:
    node.create_topic("t")

    assert alter(node, resource(TOPIC, "t", ("retention.ms", SET, "5")), validate_only=True) == [(0, None)]
    assert node.image.configs.of_topic("t") == {}


def test_new_min_isr_clears_the_eligible_leaders_computed_with_the_old_one(node: Any) -> None:
    node.create_topic("t")
    request = IncrementalAlterConfigsRequest(resources=[resource(TOPIC, "t", ("min.insync.replicas", SET, "2"))])

    records = node.records_of(request)

    assert MetadataRecord(log.ClearElrRecord(topic_name="t"), 0) in records


def test_cluster_wide_default_is_stored_under_the_empty_name(node: Any) -> None:
    alter(node, resource(BROKER, "", ("log.retention.ms", SET, "7")))

    assert node.image.configs.of(EVERY_BROKER) == {"min.insync.replicas": "1", "log.retention.ms": "7"}


def test_alter_configs_replaces_all_configs(node: Any) -> None:
    node.create_topic("t", retention_ms="5", segment_ms="6")
    full = FullResource(resource_type=TOPIC, resource_name="t", configs=[FullConfig(name="retention.ms", value="9")])

    response = node.ask(AlterConfigsRequest(resources=[full]))

    assert response.responses[0].error_code == ErrorCode.NONE
    assert node.image.configs.of_topic("t") == {"retention.ms": "9"}


def throttled(first: int, last: int) -> str:
    return ",".join(f"{number}:1" for number in range(first, last))


def test_list_grows_up_to_the_maximum_size_of_a_record_value(node: Any) -> None:
    """The message is that of Kafka 4.3.1."""
    node.create_topic("t")
    key = "leader.replication.throttled.replicas"

    assert alter(node, resource(TOPIC, "t", (key, APPEND, throttled(0, 4_000)))) == [(0, None)]
    before = node.image.configs.of_topic("t")
    message = "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes."
    assert alter(node, resource(TOPIC, "t", (key, APPEND, throttled(4_000, 8_000)))) == [
        (ErrorCode.INVALID_CONFIG, message)
    ]
    assert node.image.configs.of_topic("t") == before
    assert node.controller.is_active


@pytest.mark.parametrize("key", ["ssl.keystore.location", "ssl.truststore.location"])
def test_path_with_a_nul_is_rejected(node: Any, key: str) -> None:
    name = f"listener.name.plaintext.{key}"

    ((code, message),) = alter(node, resource(BROKER, "1", (name, SET, "/tmp/a\0b")))

    assert code == ErrorCode.INVALID_REQUEST
    assert message == (f"Invalid value /tmp/a\\x00b for configuration {key}: A path cannot contain a NUL character")
