"""Steps of the tests that move replicas between log directories: requests, records, restarts, and files on the disk."""

from collections.abc import Callable
from dataclasses import replace

from ottla.errors import ErrorCode
from ottla.log.config import LogConfig
from ottla.types import TopicPartition
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from replicating_brokers import Broker, Cluster

T0 = TopicPartition("t", 0)


def move(broker: Broker, path: str, *, topic: str = "t", index: int = 0) -> ErrorCode:
    wanted = AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=topic, partitions=[index])])
    (response,) = broker.ask(AlterReplicaLogDirsRequest(dirs=[wanted]), 2)
    return ErrorCode(response.results[0].partitions[0].error_code)


def described(broker: Broker, topic: str = "t") -> dict[str, list[tuple[bool, int]]]:
    """Return, by log directory, whether a log there is a copy, and its lag."""
    topics = [DescribableLogDirTopic(topic=topic, partitions=[0])]
    (response,) = broker.ask(DescribeLogDirsRequest(topics=topics), 4)
    return {
        result.log_dir: [(each.is_future_key, each.offset_lag) for topic in result.topics for each in topic.partitions]
        for result in response.results
    }


def directory(broker: Broker) -> str:
    return broker.partition().log.directory


def throttle(broker: Broker, rate: int = 1) -> None:
    broker.replicas.update_config(replace(broker.replicas.config, directory_move_rate=rate))


def fill(cluster: Cluster, count: int = 50, size_bytes: int = 500) -> list[bytes]:
    values = [b"%d" % number * (size_bytes // len(b"%d" % number)) for number in range(count)]
    for value in values:
        cluster[1].produce(value)
        cluster.settle()
    return values


def leftovers(broker: Broker) -> set[str]:
    """Return the directories of t-0 on the disk."""
    return {path.rpartition("/")[0] for path in broker.disk.paths() if "/t-0" in path}


def restart(cluster: Cluster, node_id: int, *, is_clean: bool = False) -> None:
    broker = cluster[node_id]
    if is_clean:
        broker.logs.close()
    broker.disk.kill()
    broker.start()
    cluster.settle()


def single(new_cluster: Callable[..., Cluster], config: LogConfig) -> Cluster:
    """Return one broker with three log directories; topic t has one partition, in /data."""
    made: Cluster = new_cluster(1, directory_count=3, config=config)
    made.controller.create_topic("t", (1,))
    made.settle()
    return made


def copy_everything(cluster: Cluster) -> None:
    """Let time pass until the copy in /data2 has all records, but none of its syncs complete."""
    broker = cluster[1]
    future = broker.logs.futures.get(T0)
    assert future is not None
    broker.disk.complete_syncs()
    while future.log_end_offset < broker.partition().log.log_end_offset:
        cluster.clock.advance(25)
        broker.replicas.tick(cluster.clock.monotonic_ms())
        broker.background.complete_work()


def end_move(cluster: Cluster) -> None:
    """End the move as an error of a read does."""
    moves = cluster[1].replicas.moves
    moves._fail(moves._moves[T0], OSError("fault injected"))
