"""kafka-leader-election, and groups whose coordinator fails, on five nodes."""

from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, TopicPartition


def elect(five: Any, kind: str, topic: str, code: int | None = 0) -> Any:
    return five.tool("kafka-leader-election", "--election-type", kind, "--topic", topic, "--partition", "0", code=code)


def test_preferred_replica_leads_again_on_request(five: Any, unique: Callable[[str], str]) -> None:
    topic = unique("preferred")
    five.create_at(topic, "4:1:2")
    five.produce(topic, count=10)
    five.stop(4)
    five.wait_for(lambda: five.partition(topic)["Leader"] == "1")

    away = elect(five, "preferred", topic, code=1)
    assert away.lines == [
        f"Error completing leader election (PREFERRED) for partition: {topic}-0: "
        "org.apache.kafka.common.errors.PreferredLeaderNotAvailableException: The preferred leader was not available."
    ]
    five.start(4)
    five.wait_for(lambda: len(five.partition(topic)["Isr"].split(",")) == 3)
    assert five.partition(topic)["Leader"] == "1"
    elected = elect(five, "preferred", topic)
    again = elect(five, "preferred", topic)

    assert elected.lines == [f"Successfully completed leader election (PREFERRED) for partitions {topic}-0"]
    assert again.lines == [f"Valid replica already elected for partitions {topic}-0"]
    five.settle(lambda: five.partition(topic)["Leader"], "4")


def test_replica_that_is_not_in_sync_leads_only_on_request(five: Any, unique: Callable[[str], str]) -> None:
    topic = unique("unclean")
    five.create_at(topic, "4:5", min_insync_replicas="1")
    five.produce(topic, count=10)
    five.kill(5)
    five.wait_for(lambda: five.partition(topic)["Isr"] == "4")
    five.produce(topic, count=10)
    five.kill(4)
    five.wait_for(lambda: five.partition(topic)["Leader"] == "none")
    five.start(5)

    def leadership() -> tuple[str, ...]:
        row = five.partition(topic)
        return row["Leader"], row["Isr"], row["Elr"], row["LastKnownElr"]

    five.settle(lambda: leadership()[:3], ("none", "", "4"))

    elected = elect(five, "unclean", topic)

    assert elected.lines == [f"Successfully completed leader election (UNCLEAN) for partitions {topic}-0"]
    five.settle(leadership, ("5", "5", "", ""))
    five.start(4)
    five.wait_for(lambda: sorted(five.partition(topic)["Isr"].split(",")) == ["4", "5"])
    ends = five.tool("kafka-get-offsets", "--topic", topic)
    assert ends.lines == [f"{topic}:0:10"]
    logs = [five.data(each) / f"{topic}-0" / f"{0:020}.log" for each in (4, 5)]
    five.wait_for(lambda: logs[0].read_bytes() == logs[1].read_bytes())


def test_election_of_an_unknown_partition_is_rejected(five: Any, unique: Callable[[str], str]) -> None:
    rejected = elect(five, "preferred", unique("absent"), code=1)

    assert "org.apache.kafka.common.errors.UnknownTopicOrPartitionException" in rejected.stdout + rejected.stderr


def test_group_outlives_its_coordinator(five: Any, unique: Callable[[str], str], take: Callable[..., Any]) -> None:
    topic, group = unique("read"), unique("readers")
    five.create_at(topic, "1:2:3")
    five.produce(topic, count=20)
    consumer = Consumer(
        {
            "bootstrap.servers": five.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    last = take(consumer, 10)[-1]
    consumer.commit(offsets=[TopicPartition(topic, 0, last.offset() + 1)], asynchronous=False)

    def state() -> dict[str, str]:
        shown = five.tool("kafka-consumer-groups", "--describe", "--group", group, "--state", code=None)
        found = next((row for row in shown.rows if row[0] == group), None)
        return {} if found is None else {"coordinator": found[2].strip("()"), "state": found[-2], "members": found[-1]}

    before = five.wait_for(state)
    victim = int(before["coordinator"])
    five.kill(victim)

    after = five.wait_for(lambda: (found := state()) and found["coordinator"] != before["coordinator"] and found)
    assert (after["state"], after["members"]) == ("Stable", "1")
    rest = take(consumer, 10)
    assert [record.offset() for record in rest] == list(range(10, 20))
    shown = five.tool("kafka-consumer-groups", "--describe", "--group", group, "--offsets")
    columns = next(row for row in shown.rows if row[0] == group)
    assert columns[:6] == [group, topic, "0", "10", "20", "10"]
    consumer.close()
