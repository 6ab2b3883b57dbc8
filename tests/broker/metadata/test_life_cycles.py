"""The states of partitions and replicas follow from the metadata."""

import pytest

from ottla.metadata.cluster import DIRECTORY_LOST, BrokerRegistration, ClusterImage
from ottla.metadata.life_cycles import PartitionState, ReplicaState, partition_state, replica_state
from ottla.metadata.topics import PartitionRegistration
from ottla.types import Uuid

FIRST, SECOND = Uuid(b"1" * 16), Uuid(b"2" * 16)


def broker(broker_id: int, *, is_fenced: bool = False, shuts_down: bool = False) -> BrokerRegistration:
    return BrokerRegistration(
        broker_id=broker_id,
        epoch=broker_id,
        incarnation_id=Uuid(bytes([broker_id]) * 16),
        listeners={},
        features={},
        rack=None,
        is_fenced=is_fenced,
        in_controlled_shutdown=shuts_down,
        directories=(FIRST,),
    )


CLUSTER = ClusterImage({1: broker(1), 2: broker(2, is_fenced=True), 3: broker(3, shuts_down=True)})
PARTITION = PartitionRegistration(
    replicas=(1, 2, 3, 4), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0, directories=(FIRST,) * 4
)

IN_ANOTHER_DIRECTORY = PARTITION._replace(directories=(SECOND,) * 4)
IN_A_LOST_DIRECTORY = PARTITION._replace(directories=(DIRECTORY_LOST,) * 4)
ADDED = PARTITION._replace(adding_replicas=(3,), isr=(1, 3))


@pytest.mark.parametrize(
    ("partition", "state"),
    [
        pytest.param(None, PartitionState.NON_EXISTENT, id="not-in-the-metadata"),
        pytest.param(PARTITION, PartitionState.ONLINE, id="led"),
        pytest.param(PARTITION._replace(leader=-1), PartitionState.OFFLINE, id="not-led"),
    ],
)
def test_partition_with_a_leader_is_online(partition: PartitionRegistration | None, state: PartitionState) -> None:
    assert partition_state(partition) is state


@pytest.mark.parametrize(
    ("partition", "broker_id", "state"),
    [
        pytest.param(None, 1, ReplicaState.NON_EXISTENT, id="no-partition"),
        pytest.param(PARTITION, 5, ReplicaState.NON_EXISTENT, id="not-a-replica"),
        pytest.param(PARTITION, 1, ReplicaState.ONLINE, id="on-an-active-broker"),
        pytest.param(PARTITION, 2, ReplicaState.OFFLINE, id="on-a-fenced-broker"),
        pytest.param(PARTITION, 3, ReplicaState.ONLINE, id="on-one-that-shuts-down-in-order"),
        pytest.param(PARTITION, 4, ReplicaState.OFFLINE, id="on-one-that-is-gone"),
        pytest.param(
            PARTITION._replace(directories=(SECOND,) * 4), 1, ReplicaState.OFFLINE, id="in-a-failed-directory"
        ),
        pytest.param(
            PARTITION._replace(directories=(DIRECTORY_LOST,) * 4), 1, ReplicaState.OFFLINE, id="in-a-lost-one"
        ),
        pytest.param(PARTITION._replace(adding_replicas=(3,)), 3, ReplicaState.NEW, id="being-added"),
        pytest.param(ADDED, 3, ReplicaState.ONLINE, id="added-and-in-sync"),
        pytest.param(PARTITION._replace(adding_replicas=(2,)), 2, ReplicaState.OFFLINE, id="being-added-and-away"),
    ],
)
def test_replica_state_follows_its_broker_and_directory(
    partition: PartitionRegistration | None, broker_id: int, state: ReplicaState
) -> None:
    assert replica_state(partition, broker_id, CLUSTER) is state
