"""kafkajs, @platformatic/kafka and franz-go share no code with each other, Java or librdkafka.

JVM Kafka passes the same tests.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.admin import AdminClient
from ottla.config.resource_type import ConfigResourceType

COPIED = 400
SHARED = 200
COPY_PARTITIONS = 4
FENCED = {"kafkajs": "INVALID_PRODUCER_EPOCH", "franz_go": "PRODUCER_FENCED"}
"""kafkajs sends EndTxn v1, which is from before the error PRODUCER_FENCED."""

pytestmark = pytest.mark.timeout(180)


def test_records_of_an_idempotent_producer_come_back_unchanged_and_in_order(
    client: Any, new_topic: Callable[..., str], unique: Callable[[str], str]
) -> None:
    topic = new_topic(partitions=2)
    records = [[number % 2, f"key {number}", f"value {number}", {"number": str(number)}] for number in range(200)]
    records += [[0, None, "no key", {}], [1, "no value", None, {}], [0, "", "", {"empty": ""}]]

    client.run("produce", topic=topic, records=records)
    read = client.run("consume", topic=topic, count=len(records), group=unique("reader"), committed=False)

    for partition in range(2):
        assert [each for each in read if each[0] == partition] == [each for each in records if each[0] == partition]


@pytest.mark.usefixtures("transactions")
def test_read_committed_hides_aborted_transactions(
    client: Any, new_topic: Callable[..., str], unique: Callable[[str], str]
) -> None:
    topic = new_topic()
    transactions = [([f"{number}-{letter}" for letter in "abc"], number % 3 != 1) for number in range(9)]
    everything = [value for values, _ in transactions for value in values]
    committed = [value for values, is_committed in transactions for value in values if is_committed]

    written = [{"values": values, "commit": is_committed} for values, is_committed in transactions]
    client.run("transact", topic=topic, id=unique("transactional"), transactions=written)

    for is_committed, expected in ((True, committed), (False, everything)):
        group = unique("reader")
        read = client.run("consume", topic=topic, count=len(expected), group=group, committed=is_committed)
        assert [value for _, _, value, _ in read] == expected


@pytest.mark.usefixtures("transactions")
def test_copy_with_offsets_in_transactions_is_exactly_once_although_it_is_killed(
    client: Any,
    end_offset: Callable[[str, str], int],
    new_topic: Callable[..., str],
    unique: Callable[[str], str],
    produce: Callable[..., Any],
    consume: Callable[..., Any],
    eventually: Callable[..., object],
) -> None:
    source, target = new_topic(partitions=COPY_PARTITIONS), new_topic(partitions=COPY_PARTITIONS)
    for partition in range(COPY_PARTITIONS):
        values = [b"%d" % number for number in range(partition, COPIED, COPY_PARTITIONS)]
        produce(source, values, partition=partition, config={"batch.num.messages": 10})
    copying = {"source": source, "target": target, "group": unique("copier"), "id": unique("copier")}

    client.start("copy", **copying)
    eventually(lambda: end_offset(client.bootstrap, target) > COPIED // 8)
    client.kill()
    client.start("copy", **copying)
    records = consume(target, COPIED, {"isolation.level": "read_committed"})
    client.kill()

    assert Counter(int(each.value()) for each in records) == Counter(range(COPIED))


@pytest.mark.usefixtures("transactions")
def test_older_instance_is_fenced_by_one_with_its_transactional_id(
    client: Any, request: pytest.FixtureRequest, new_topic: Callable[..., str], unique: Callable[[str], str]
) -> None:
    topic = new_topic()

    error = client.run("fence", topic=topic, id=unique("transactional"))
    read = client.run("consume", topic=topic, count=1, group=unique("reader"), committed=True)

    assert error == FENCED[request.node.callspec.params["client"]]
    assert [value for _, _, value, _ in read] == ["of the newer instance"]


def test_compacted_topic_has_the_last_value_of_each_key_also_where_it_is_null(
    client: Any, compacted: str, unique: Callable[[str], str], eventually: Callable[..., object]
) -> None:
    def read(count: int) -> list[Any]:
        group = unique("reader")
        return client.run("consume", topic=compacted, count=count, group=group, committed=True)

    values = [*(f"value {number}" for number in range(5)), None]
    records = [[0, f"key {key}", value, {}] for value in values for key in range(4)]
    records += [[0, "key 0", "written again", {}]]
    last = [*([0, f"key {key}", None, {}] for key in range(1, 4)), records[-1], [0, "another segment", "", {}]]

    client.run("produce", topic=compacted, records=records)
    client.run("produce", topic=compacted, records=last[-1:])

    eventually(lambda: read(len(last)) == last)


def test_partitions_are_shared_while_a_group_has_a_second_member(
    client: Any, new_topic: Callable[..., str], unique: Callable[[str], str], produce: Callable[..., Any]
) -> None:
    topic = new_topic(partitions=4)
    for partition in range(4):
        produce(topic, [b"%d-%d" % (partition, number) for number in range(10)], partition=partition)

    result = client.run("rebalance", topic=topic, group=unique("group"))

    assert result["alone"] == result["after"] == [0, 1, 2, 3]
    assert sorted(result["together"][0] + result["together"][1]) == [0, 1, 2, 3]
    assert result["values"] == sorted(f"{partition}-{number}" for partition in range(4) for number in range(10))


def test_partitions_are_shared_in_a_group_of_the_consumer_protocol(
    consumer_protocol_client: Any,
    new_topic: Callable[..., str],
    unique: Callable[[str], str],
    produce: Callable[..., Any],
) -> None:
    topic = new_topic(partitions=4)
    for partition in range(4):
        produce(topic, [b"%d-%d" % (partition, number) for number in range(10)], partition=partition)

    result = consumer_protocol_client.run("rebalance", topic=topic, group=unique("group"), protocol="consumer")

    assert result["alone"] == result["after"] == [0, 1, 2, 3]
    assert sorted(result["together"][0] + result["together"][1]) == [0, 1, 2, 3]
    assert result["values"] == sorted(f"{partition}-{number}" for partition in range(4) for number in range(10))


def test_members_of_a_share_group_read_each_record_once(
    share_client: Any, new_topic: Callable[..., str], unique: Callable[[str], str], produce: Callable[..., Any]
) -> None:
    topic, group = new_topic(partitions=2), unique("group")
    for partition in range(2):
        produce(topic, [b"%d" % number for number in range(partition, SHARED, 2)], partition=partition)
    asyncio.run(set_group(share_client.bootstrap, group, "share.auto.offset.reset", "earliest"))

    read = share_client.run("share", topic=topic, group=group, count=SHARED)

    assert sorted(int(value) for values in read for value in values) == list(range(SHARED))


async def set_group(bootstrap: str, group: str, key: str, value: str) -> None:
    async with AdminClient(bootstrap) as admin:
        await admin.alter_configs(ConfigResourceType.GROUP, group, upserts={key: value})


def test_topic_and_group_are_administered(client: Any, unique: Callable[[str], str]) -> None:
    assert client.run("administer", topic=unique("administered"), group=unique("group")) == {
        "created_again": False,
        "partitions": [[0, True], [1, True], [2, True]],
        "retention_ms": "7200000",
        "offsets": [[0, 0, 0], [1, 0, 5], [2, 0, 0]],
        "group": ["Stable", "consumer", 1, True],
        "committed": 5,
    }
