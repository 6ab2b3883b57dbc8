"""Decide, replay, commit: the state comes from the log alone; a controller that loses it fails pending requests."""

import errno
import logging
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.controller.result import ControllerResult
from ottla.errors import ErrorCode
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage, Provenance
from ottla.metadata.loader import BatchReplayer
from ottla.metadata.records import MetadataRecord, MetadataRecordSerde
from ottla.types import OffsetAndEpoch
from ottla.wire.messages import metadata_log as log
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

TOPICS = st.sampled_from(["a", "b", "c"])
BROKERS = st.integers(1, 3)
ACTIONS = st.one_of(
    st.tuples(st.just("create"), TOPICS, st.integers(1, 4)),
    st.tuples(st.just("delete"), TOPICS),
    st.tuples(st.just("enlarge"), TOPICS, st.integers(1, 6)),
    st.tuples(st.just("configure"), TOPICS, st.sampled_from(["1", "2000", None])),
    st.tuples(st.just("register"), BROKERS, st.booleans()),
    st.tuples(st.just("heartbeat"), BROKERS, st.booleans(), st.booleans()),
    st.tuples(st.just("allocate"), BROKERS),
    st.tuples(st.just("wait"), st.integers(0, 10_000)),
)


def configure(topic: str, value: str | None) -> IncrementalAlterConfigsRequest:
    config = AlterableConfig(name="retention.ms", config_operation=0 if value else 1, value=value)
    return IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=2, resource_name=topic, configs=[config])]
    )


def act(node: Any, action: tuple[Any, ...]) -> None:
    match action:
        case ("create", name, partitions):
            node.create_topic(name, partitions, -1)
        case ("delete", name):
            node.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)]))
        case ("enlarge", name, count):
            topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
            node.ask(CreatePartitionsRequest(topics=[topic]))
        case ("configure", name, value):
            node.ask(configure(name, value))
        case ("register", broker_id, is_clean):
            previous = node.epoch_of(broker_id) if is_clean else -1
            node.ask(node.registration(broker_id, previous_broker_epoch=previous))
        case ("heartbeat", broker_id, want_fence, want_shut_down):
            node.ask(node.heartbeat(broker_id, want_fence=want_fence, want_shut_down=want_shut_down))
        case ("allocate", broker_id):
            node.ask(AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=node.epoch_of(broker_id)))
        case ("wait", milliseconds):
            node.clock.advance(milliseconds)
            node.controller.tick(node.clock.monotonic_ms())
            node.commit()


def replayed(records: list[MetadataRecord], provenance: Provenance) -> MetadataImage:
    serde = MetadataRecordSerde()
    replayer = BatchReplayer(EMPTY_IMAGE)
    for record in records:
        replayer.replay(serde.decode(serde.encode(record)))
    return replayer.delta.apply(provenance)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=st.lists(ACTIONS, max_size=25))
def test_log_snapshot_and_controller_agree_on_the_image(
    new_controller: Callable[..., Any], actions: list[tuple[Any, ...]]
) -> None:
    node = new_controller(default_replication_factor=2)
    node.add_brokers(1, 2)
    for action in actions:
        act(node, action)

    image = node.image
    assert node.controller.state.image == image
    assert replayed(node.recorder.records, image.provenance) == image
    assert replayed(list(image.records()), image.provenance) == image
    for topic in image.topics.by_name.values():
        for partition in topic.partitions.values():
            assert partition.leader == -1 or partition.leader in partition.isr
            assert set(partition.isr).isdisjoint(partition.elr)
            assert set(partition.isr) | set(partition.elr) <= set(partition.replicas)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=st.lists(ACTIONS, max_size=10), after=st.lists(ACTIONS, max_size=10), crash=st.booleans())
def test_restart_from_snapshot_and_log_restores_the_same_image(
    new_controller: Callable[..., Any], before: list[tuple[Any, ...]], after: list[tuple[Any, ...]], crash: bool
) -> None:
    node = new_controller()
    node.add_brokers(1, 2)
    for action in before:
        act(node, action)
    offset, epoch, log_time_ms = node.image.provenance
    writer = node.raft.create_snapshot(OffsetAndEpoch(offset + 1, epoch), last_contained_log_time_ms=log_time_ms)
    writer.append(list(node.image.records()))
    node.raft.finish_snapshot(writer)
    node.commit()
    for action in after:
        act(node, action)
    expected = node.image

    node.restart(crash=crash)

    assert node.image.topics == expected.topics
    assert node.image.configs == expected.configs
    assert node.image.features == expected.features
    assert node.image.producer_ids == expected.producer_ids
    assert node.image.cluster.brokers == expected.cluster.brokers
    assert node.controller.state.image == node.image


def test_first_records_of_a_cluster_equal_kafka_s(new_controller: Callable[..., Any]) -> None:
    node = new_controller()

    features = [("metadata.version", 30), ("eligible.leader.replicas.version", 1), ("group.version", 1)]
    features += [("share.version", 1), ("streams.version", 1), ("transaction.version", 2)]
    assert [record.message for record in node.recorder.records[:9]] == [
        log.BeginTransactionRecord(name="Bootstrap records"),
        *(log.FeatureLevelRecord(name=name, feature_level=level) for name, level in features),
        log.ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1"),
        log.EndTransactionRecord(),
    ]
    assert isinstance(node.recorder.records[9].message, log.RegisterControllerRecord)


def test_bootstrap_records_are_written_once(node: Any) -> None:
    node.restart()

    started = [each for each in node.recorder.records if isinstance(each.message, log.BeginTransactionRecord)]
    assert len(started) == 1


@pytest.mark.parametrize(("elapsed_ms", "records"), [pytest.param(499, 0, id="early"), pytest.param(500, 1, id="due")])
def test_idle_controller_appends_no_op_records(
    new_controller: Callable[..., Any], elapsed_ms: int, records: int
) -> None:
    node = new_controller(idle_interval_ms=500)
    node.controller.tick(node.clock.monotonic_ms())
    before = len(node.recorder.records)

    node.clock.advance(elapsed_ms)
    node.controller.tick(node.clock.monotonic_ms())
    node.commit()

    assert [type(each.message) for each in node.recorder.records[before:]] == [log.NoOpRecord] * records


def test_controller_is_not_active_before_the_quorum_has_a_leader(new_controller: Callable[..., Any]) -> None:
    node = new_controller()
    node.raft.close()
    node.disk.kill()
    commit, node.commit = node.commit, lambda: None
    node.start()

    response = node.channel.send(CreateTopicsRequest(topics=[CreatableTopic(name="t")]))

    assert not node.controller.is_active
    assert response.value.topics[0].error_code == ErrorCode.NOT_CONTROLLER
    commit()
    assert node.controller.is_active


def test_requests_fail_if_their_records_cannot_be_written(node: Any) -> None:
    waiting = node.channel.send(
        CreateTopicsRequest(topics=[CreatableTopic(name="a", num_partitions=1, replication_factor=1)])
    )
    node.disk.fail_next("write", errno.EIO, path_part="__cluster_metadata")

    rejected = node.channel.send(
        CreateTopicsRequest(topics=[CreatableTopic(name="b", num_partitions=1, replication_factor=1)])
    )

    assert waiting.value.topics[0].error_code == ErrorCode.NOT_CONTROLLER
    assert rejected.value.topics[0].error_code == ErrorCode.NOT_CONTROLLER
    assert not node.controller.is_active
    assert node.controller.state.image.topics == node.image.topics
    assert node.raft.failure is not None


def test_record_that_cannot_be_encoded_changes_nothing(
    node: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = log.ConfigRecord(resource_type=2, resource_name="a", name="x", value="v" * 32_768)
    decided = ControllerResult(None, [MetadataRecord(record, 0)])
    monkeypatch.setitem(node.controller._decisions, CreateTopicsRequest, lambda request: decided)
    end_offset, image = node.raft.log_end_offset, node.controller.state.image

    response = node.controller.handle(CreateTopicsRequest()).value

    assert response.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert node.raft.log_end_offset == end_offset
    assert node.controller.state.image == image
    assert node.controller.is_active
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert "cannot be appended" in line
    monkeypatch.undo()
    node.create_topic("b")
    assert "b" in node.image.topics.by_name


def test_producer_ids_are_allocated_in_disjoint_blocks(node: Any) -> None:
    node.add_brokers(2)
    blocks = []
    for broker_id in (1, 2, 1):
        request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=node.epoch_of(broker_id))
        response = node.ask(request)
        blocks.append((response.producer_id_start, response.producer_id_len))

    assert blocks == [(0, 1_000), (1_000, 1_000), (2_000, 1_000)]
    node.restart(crash=True)
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=node.epoch_of(1))
    assert node.ask(request).producer_id_start == 3_000


@pytest.mark.parametrize(
    ("broker_id", "epoch_difference", "code"),
    [
        pytest.param(9, 0, ErrorCode.STALE_BROKER_EPOCH, id="unknown-broker"),
        pytest.param(1, -1, ErrorCode.STALE_BROKER_EPOCH, id="older-epoch"),
    ],
)
def test_only_registered_brokers_get_producer_ids(
    node: Any, broker_id: int, epoch_difference: int, code: ErrorCode
) -> None:
    epoch = node.epoch_of(1) + epoch_difference

    response = node.ask(AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch))

    assert response.error_code == code


def test_record_without_metadata_is_rejected_with_its_name() -> None:
    with pytest.raises(ValueError, match="BeginTransactionRecord in the metadata log belongs to no part of the image"):
        MetadataDelta(EMPTY_IMAGE).replay(log.BeginTransactionRecord())
