"""Settings that are changed while the node runs take effect without a restart."""

import pytest

from ottla.config.resource_type import ConfigResourceType
from ottla.errors import ErrorCode
from ottla.simulator.single_node import World
from ottla.simulator.workload import batch_of, create_topic, produce
from ottla.types import TopicPartition
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

SET = 0


@pytest.mark.parametrize(
    ("expiration_ms", "is_known"),
    [pytest.param(1_000, False, id="shorter-than-the-wait"), pytest.param(3_600_000, True, id="longer")],
)
def test_producer_id_expiration_ms_is_gone_by_at_once(world: World, expiration_ms: int, is_known: bool) -> None:
    running = world.start_node(producer_id_expiration_check_interval_ms="2000")
    client = running.connect()
    create_topic(client, "t")
    produce(client, "t", batch_of(client, [b"x"], producer_id=7, producer_epoch=0, base_sequence=0))
    log = running.node.logs.get(TopicPartition("t", 0))
    assert log is not None
    assert len(log.active_producers()) == 1

    setting = AlterableConfig(name="producer.id.expiration.ms", config_operation=SET, value=str(expiration_ms))
    resource = AlterConfigsResource(resource_type=ConfigResourceType.BROKER, resource_name="", configs=[setting])
    answer = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), IncrementalAlterConfigsResponse, 1)
    running.run(6_000)

    assert [response.error_code for response in answer.responses] == [ErrorCode.NONE]
    assert bool(log.active_producers()) is is_known
