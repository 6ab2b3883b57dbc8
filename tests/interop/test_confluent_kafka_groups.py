"""confluent-kafka (librdkafka): consumer groups of the classic protocol share, hand over, and remember."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewPartitions


class Member:
    """One consumer of a group; ``events`` has its assignments and revocations."""

    def __init__(self, settings: dict[str, Any], topics: list[str]) -> None:
        self.consumer = Consumer(settings)
        self.events: list[tuple[str, list[int]]] = []
        self.values: list[bytes] = []
        self.closed = False
        self.consumer.subscribe(
            topics, on_assign=self._on("assigned"), on_revoke=self._on("revoked"), on_lost=self._on("lost")
        )

    def _on(self, what: str) -> Callable[..., None]:
        return lambda _, partitions: self.events.append((what, sorted(p.partition for p in partitions)))

    @property
    def partitions(self) -> set[int]:
        return {partition.partition for partition in self.consumer.assignment()}

    def poll(self) -> None:
        message = self.consumer.poll(0.05)
        if message is not None and message.error() is None:
            self.values.append(message.value())

    def close(self) -> None:
        if not self.closed:
            self.consumer.close()
            self.closed = True


@pytest.fixture
def join(broker: Any, unique: Callable[[str], str]) -> Iterator[Callable[..., Member]]:
    """Return ``join(topics, **settings)``: one more member of this test's group (underscores in keys are dots)."""
    group = unique("group")
    members: list[Member] = []

    def new(topics: list[str], **settings: Any) -> Member:
        base = {"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
        base |= {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 500, "topic.metadata.refresh.interval.ms": 500}
        members.append(Member(base | {key.replace("_", "."): value for key, value in settings.items()}, topics))
        return members[-1]

    yield new
    for member in members:
        member.close()


def settle(members: list[Member], shares: list[int], timeout_s: float = 60) -> None:
    """Poll all members until they have as many partitions as ``shares``, in any order, each partition once."""
    deadline = time.monotonic() + timeout_s
    while True:
        for member in members:
            member.poll()
        held = [partition for member in members for partition in member.partitions]
        if sorted(len(member.partitions) for member in members) == sorted(shares) and len(held) == len(set(held)):
            return
        assert time.monotonic() < deadline, [(member.partitions, member.events) for member in members]


STRATEGIES = ["range", "roundrobin", "cooperative-sticky"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_two_members_share_and_the_last_one_has_all(
    join: Callable[..., Member], new_topic: Callable[..., str], strategy: str
) -> None:
    topic = new_topic(partitions=4)

    first = join([topic], partition_assignment_strategy=strategy)
    settle([first], [4])
    second = join([topic], partition_assignment_strategy=strategy)
    settle([first, second], [2, 2])
    second.close()
    settle([first], [4])

    assert "lost" not in [what for what, _ in first.events]


def test_eager_members_revoke_all_and_cooperative_ones_only_moving_partitions(
    join: Callable[..., Member], new_topic: Callable[..., str], unique: Callable[[str], str]
) -> None:
    topic = new_topic(partitions=4)
    for strategy, given_up in [("range", 4), ("cooperative-sticky", 2)]:
        group = unique("group")
        first = join([topic], partition_assignment_strategy=strategy, group_id=group)
        settle([first], [4])
        second = join([topic], partition_assignment_strategy=strategy, group_id=group)
        settle([first, second], [2, 2])

        revoked = [partitions for what, partitions in first.events if what == "revoked"]
        assert [len(partitions) for partitions in revoked] == [given_up], strategy


def test_more_members_than_partitions_leaves_one_idle(
    join: Callable[..., Member], new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=2)

    members = [join([topic]) for _ in range(3)]

    settle(members, [0, 1, 1])


def test_restarted_group_resumes_from_its_committed_offsets(
    join: Callable[..., Member], new_topic: Callable[..., str], produce: Callable[..., Any], take: Callable[..., Any]
) -> None:
    topic = new_topic()
    produce(topic, [b"%d" % number for number in range(10)])
    first = join([topic], enable_auto_commit=False)
    read = take(first.consumer, 4)
    first.consumer.commit(message=read[-1], asynchronous=False)
    first.close()

    second = join([topic])

    assert [record.value() for record in take(second.consumer, 6)] == [b"%d" % number for number in range(4, 10)]


def test_offsets_are_committed_with_metadata(join: Callable[..., Member], new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=2)
    member = join([topic])
    settle([member], [2])

    member.consumer.commit(offsets=[TopicPartition(topic, 1, 17, metadata="note")], asynchronous=False)

    committed = member.consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], timeout=30)
    assert [(place.offset, place.metadata) for place in committed] == [(-1001, None), (17, "note")]


def test_auto_commit_happens_on_close(
    join: Callable[..., Member], new_topic: Callable[..., str], produce: Callable[..., Any], take: Callable[..., Any]
) -> None:
    topic = new_topic()
    produce(topic, [b"a", b"b", b"c"])
    first = join([topic], enable_auto_commit=True)
    take(first.consumer, 2)
    first.close()

    second = join([topic])

    assert take(second.consumer, 1)[0].value() == b"c"


def test_static_member_returns_without_a_rebalance(join: Callable[..., Member], new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=2)
    stays = join([topic], group_instance_id="stays")
    goes = join([topic], group_instance_id="goes")
    settle([stays, goes], [1, 1])
    events_before = list(stays.events)
    had = goes.partitions

    goes.close()
    back = join([topic], group_instance_id="goes")
    settle([stays, back], [1, 1])

    assert back.partitions == had
    assert stays.events == events_before


def test_member_that_dies_is_noticed_by_its_session_timeout(
    join: Callable[..., Member], new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=2)
    stays = join([topic], session_timeout_ms=6000)
    # It never polls again: librdkafka leaves the group after max.poll.interval.ms, as a hung process is put out.
    hangs = join([topic], session_timeout_ms=6000, max_poll_interval_ms=6000)
    settle([stays, hangs], [1, 1])

    settle([stays], [2])


def test_pattern_subscription_includes_topics_created_later(
    join: Callable[..., Member],
    new_topic: Callable[..., str],
    produce: Callable[..., Any],
    broker: Any,
    unique: Callable[[str], str],
) -> None:
    prefix = unique("pattern")
    produce(f"{prefix}.one", [b"1"])
    produce(f"other-{prefix}.one", [b"no"])
    member = join([f"^{prefix}\\..*"])
    deadline = time.monotonic() + 60
    while member.values != [b"1"]:
        member.poll()
        assert time.monotonic() < deadline, member.events

    produce(f"{prefix}.two", [b"2"])

    while member.values != [b"1", b"2"]:
        member.poll()
        assert time.monotonic() < deadline, member.events


def test_new_partitions_are_assigned(join: Callable[..., Member], new_topic: Callable[..., str], admin: Any) -> None:
    topic = new_topic(partitions=1)
    member = join([topic])
    settle([member], [1])

    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(timeout=30)

    settle([member], [3])


def test_member_and_its_offsets_outlive_a_restart_of_the_node(
    new_node: Callable[[], Any], take: Callable[..., Any]
) -> None:
    node = new_node()
    producer = Producer({"bootstrap.servers": node.bootstrap, "log_level": 0})
    for number in range(6):
        producer.produce("restarts", b"%d" % number)
    assert producer.flush(30) == 0
    settings = {"bootstrap.servers": node.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    settings |= {
        "enable.auto.commit": False,
        "session.timeout.ms": 6000,
        "reconnect.backoff.max.ms": 500,
        "log_level": 0,
    }
    member = Consumer(settings)
    member.subscribe(["restarts"])
    member.commit(message=take(member, 3)[-1], asynchronous=False)

    node.stop()
    node.start()

    rest = take(member, 3)
    assert [record.value() for record in rest] == [b"3", b"4", b"5"]
    assert commit_when_the_coordinator_is_back(member, rest[1])
    member.close()
    newcomer = Consumer(settings)
    newcomer.subscribe(["restarts"])
    assert take(newcomer, 1)[0].value() == b"5"
    newcomer.close()


def commit_when_the_coordinator_is_back(consumer: Consumer, message: Any) -> bool:
    """Commit; a client that has just lost its coordinator gets retriable errors for a while."""
    for _ in range(100):
        try:
            consumer.commit(message=message, asynchronous=False)
        except KafkaException:
            consumer.poll(0.1)
        else:
            return True
    return False
